//! The endpoints that HBase ships and that every region answers here: `MultiRowMutationService` and `AggregateService`
//! (hbase-protocol.md 4.7). There is no JVM, so no other one: it is refused in HBase's words.
//!
//! Runs on the core that owns the region. Must not know how a call came: alone, or as an action of a `Multi`.

mod aggregate;
mod interpreter;
mod multi_row;

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use cadastre_wire::{Message, pb};

use crate::apply::Terms;
use crate::regions::Hosted;

/// Package of the Java classes that answers are named by: endpoints of HBase 2 use the messages of its unshaded protobuf.
const JAVA_PACKAGE: &str = "org.apache.hadoop.hbase.protobuf.generated";

/// Runs a call on a region; the answer's message with the name of its Java class.
///
/// # Errors
/// `UnknownProtocol` for services and methods that do not exist; else the endpoint's.
pub(crate) async fn call<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    call: &pb::CoprocessorServiceCall,
    terms: Terms,
) -> Result<pb::NameBytesPair> {
    match call.service_name.as_str() {
        multi_row::SERVICE => match call.method_name.as_str() {
            multi_row::METHOD => {
                let answer = multi_row::mutate_rows(env, hosted, request(call)?, terms).await?;
                Ok(named("MultiRowMutationProtos$MutateRowsResponse", &answer))
            }
            _ => Err(unknown_method(call)),
        },
        aggregate::SERVICE => {
            let function =
                aggregate::Function::of(&call.method_name).ok_or_else(|| unknown_method(call))?;
            let answer = aggregate::run(env, hosted, function, request(call)?, terms).await?;
            Ok(named("AggregateProtos$AggregateResponse", &answer))
        }
        service => Err(Error::new(
            Code::UnknownProtocol,
            format!(
                "No registered coprocessor service found for {service} in region {}",
                hosted.region.info().name().escape_ascii()
            ),
        )),
    }
}

fn request<M: Default + Message>(call: &pb::CoprocessorServiceCall) -> Result<M> {
    // Inside a message of its own, so what cannot be read is no fault of the connection.
    cadastre_wire::decode(call.request.clone()).map_err(|error| Error::invalid(error.message()))
}

fn unknown_method(call: &pb::CoprocessorServiceCall) -> Error {
    Error::new(
        Code::UnknownProtocol,
        format!(
            "Unknown method {} called on service hbase.pb.{}",
            call.method_name, call.service_name
        ),
    )
}

fn named(class: &str, answer: &impl Message) -> pb::NameBytesPair {
    pb::NameBytesPair {
        name: format!("{JAVA_PACKAGE}.{class}"),
        value: Some(cadastre_wire::encode(answer)),
    }
}
