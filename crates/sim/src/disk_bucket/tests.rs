//! What a power cut does to objects on the disk. The contract itself is tested beside the bucket.

use std::sync::Mutex;

use object_store::ObjectStoreExt;

use super::*;
use crate::{Fault, World, WorldConfig};

#[test]
fn an_acknowledged_object_survives_every_power_cut_whole() {
    for seed in 0..40 {
        let mut world = World::new(seed, WorldConfig::default());
        let acknowledged = Arc::new(Mutex::new(0u32));
        let found = Arc::new(Mutex::new(None));
        let (tell, said) = (Arc::clone(&acknowledged), Arc::clone(&found));
        let node = world.add_node("node", move |env| {
            let (tell, said) = (Arc::clone(&tell), Arc::clone(&said));
            Box::pin(async move {
                let store = DiskStore::new(env, "objects");
                let at = Path::from("dir/object");
                let before = store.get(&at).await.ok();
                let before = match before {
                    Some(got) => got.bytes().await.unwrap(),
                    None => Bytes::new(),
                };
                *said.lock().unwrap() = Some(before);
                for number in 1.. {
                    let bytes = vec![number as u8; 3000];
                    store.put(&at, bytes.into()).await.unwrap();
                    *tell.lock().unwrap() = number;
                }
            })
        });
        world.apply(&Fault::Start { node });
        world.run_for(Duration::from_millis(20 + seed)).unwrap();
        world.apply(&Fault::PowerCut { node });
        let sure = *acknowledged.lock().unwrap();
        assert!(sure > 0);
        *found.lock().unwrap() = None;
        world.apply(&Fault::Start { node });
        world
            .run_while(Duration::from_secs(1), |_| found.lock().unwrap().is_none())
            .unwrap();
        let bytes = found.lock().unwrap().take().unwrap();
        assert_eq!(bytes.len(), 3000, "seed {seed}: whole");
        let number = u32::from(bytes[0]);
        assert!(bytes.iter().all(|b| *b == bytes[0]), "seed {seed}: whole");
        assert!(
            number == sure || number == sure + 1,
            "seed {seed}: {number} {sure}"
        );
    }
}
