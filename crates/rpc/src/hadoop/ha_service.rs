//! HAServiceProtocol: making a NameNode active or standby, and asking which it is. A NameNode serves it on the port of its clients, too.

use cadastre_wire::hadoop::pb;

use crate::ha::translate::translator;
use crate::ha::{Method, Protocol};

/// The protocol.
pub static HA_SERVICE_PROTOCOL: Protocol = Protocol {
    name: "org.apache.hadoop.ha.HAServiceProtocol",
    interface: "org.apache.hadoop.ha.protocolPB.HAServiceProtocolPB",
    version: 1,
    methods: METHODS,
};

/// All idempotent (hadoop-ha-rpc.md D).
const METHODS: &[Method] = &[
    Method::read("monitorHealth", "a"),
    Method::idempotent("transitionToActive"),
    Method::idempotent("transitionToStandby"),
    Method::idempotent("transitionToObserver"),
    Method::read("getServiceStatus", "a"),
];

translator! {
    /// Calls of HAServiceProtocol. They concern one server: never make them through a provider of several.
    trait HaService;
    /// HAServiceProtocol over any [`Caller`](crate::ha::Caller).
    struct HaServiceClient over HA_SERVICE_PROTOCOL;
    monitor_health "monitorHealth" MonitorHealthRequestProto => MonitorHealthResponseProto;
    transition_to_active "transitionToActive" TransitionToActiveRequestProto => TransitionToActiveResponseProto;
    transition_to_standby "transitionToStandby" TransitionToStandbyRequestProto => TransitionToStandbyResponseProto;
    transition_to_observer "transitionToObserver" TransitionToObserverRequestProto => TransitionToObserverResponseProto;
    get_service_status "getServiceStatus" GetServiceStatusRequestProto => GetServiceStatusResponseProto;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_typed() {
        assert_eq!(TYPED.len(), METHODS.len());
    }
}
