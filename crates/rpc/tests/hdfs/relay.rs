//! A relay before a NameNode that cuts the connection when it is told to: after a request was done, before its answer is through.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cadastre_env::{Env, HostPort, Listener, Net};
use cadastre_wire::hadoop::{Incoming, PREAMBLE_BYTES, parse_incoming};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::pair::Pair;

/// Where it cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nowhere.
    Never,
    /// Once a request of this method was done: the answer is thrown away, and the connection closed.
    Answer(&'static str),
    /// As before, and from then on nobody is let in.
    AnswerAndAll(&'static str),
    /// Nobody is let in.
    All,
}

#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) at: HostPort,
    cut: Arc<Mutex<Cut>>,
}

impl Relay {
    pub(crate) async fn start(pair: &Pair, to: HostPort) -> Self {
        let env = pair.env.clone();
        let at = "127.0.0.1:0".parse().unwrap();
        let mut listener = env.net().listen(at).await.unwrap();
        let relay = Self {
            at: HostPort::new("127.0.0.1", listener.local_addr().port()),
            cut: Arc::new(Mutex::new(Cut::Never)),
        };
        let (here, spawner) = (relay.clone(), env.clone());
        env.spawn("relay", async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (here, to, net) = (here.clone(), to.clone(), spawner.net().clone());
                spawner.spawn("relayed", async move {
                    if here.cut() == Cut::All {
                        return;
                    }
                    let Ok(server) = net.connect(&to).await else {
                        return;
                    };
                    // However it ends, both sides are closed.
                    let _ = here.carry(client, server).await;
                });
            }
        });
        relay
    }

    pub(crate) fn cut(&self) -> Cut {
        *self.cut.lock().unwrap()
    }

    pub(crate) fn set(&self, cut: Cut) {
        *self.cut.lock().unwrap() = cut;
    }

    /// One request at a time, which is how the tests use it.
    async fn carry(
        &self,
        mut client: tokio::net::TcpStream,
        mut server: tokio::net::TcpStream,
    ) -> std::io::Result<()> {
        let mut preamble = [0; PREAMBLE_BYTES];
        client.read_exact(&mut preamble).await?;
        server.write_all(&preamble).await?;
        loop {
            let request = frame(&mut client).await?;
            server.write_all(&request).await?;
            let Ok(Incoming::Call(call)) = parse_incoming(request.slice(4..)) else {
                continue;
            };
            let answer = frame(&mut server).await?;
            match self.cut() {
                Cut::Answer(method) if method == call.method => {
                    self.set(Cut::Never);
                    return Ok(());
                }
                Cut::AnswerAndAll(method) if method == call.method => {
                    self.set(Cut::All);
                    return Ok(());
                }
                _ => client.write_all(&answer).await?,
            }
        }
    }
}

async fn frame(from: &mut tokio::net::TcpStream) -> std::io::Result<Bytes> {
    let length = from.read_u32().await?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(4 + length as usize, 0);
    from.read_exact(&mut frame[4..]).await?;
    Ok(frame.into())
}
