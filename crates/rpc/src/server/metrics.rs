//! The server's metrics. Labels that peers choose are bounded: a method's name becomes one only once a call of it succeeded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cadastre_types::Code;
use cadastre_wire::Service;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// Methods that get a label of their own; HBase's services have about 200 together.
const METHODS_MAX: usize = 256;

/// Label of all other methods.
const OTHER: &str = "other";

/// Metrics of one server.
pub(super) struct ServerMetrics {
    server: String,
    /// Connections open now.
    pub(super) open: Gauge,
    /// Connections accepted.
    pub(super) accepted: Counter,
    /// Connections refused because there were too many.
    pub(super) refused: Counter,
    /// Calls dropped because their deadline had passed.
    pub(super) expired: Counter,
    /// Calls that panicked.
    pub(super) panics: Counter,
    /// Bytes read and written.
    pub(super) received: Counter,
    /// Bytes written.
    pub(super) sent: Counter,
    /// Calls waiting or running.
    pub(super) calls_in_flight: Gauge,
    /// Time between a request's arrival and its start, seconds.
    pub(super) queue_seconds: Histogram,
    methods: Mutex<BTreeMap<(Service, String), Arc<MethodMetrics>>>,
    others: BTreeMap<Service, Arc<MethodMetrics>>,
}

/// Metrics of one method.
pub(super) struct MethodMetrics {
    /// Name, or `other`.
    pub(super) method: String,
    calls: Counter,
    seconds: Histogram,
}

impl MethodMetrics {
    fn new(server: &str, service: Service, method: &str) -> Arc<Self> {
        let labels = [
            ("server", server.to_owned()),
            ("service", service.name().to_owned()),
            ("method", method.to_owned()),
        ];
        Arc::new(Self {
            method: method.to_owned(),
            calls: counter!("cadastre_rpc_calls_total", &labels),
            seconds: histogram!("cadastre_rpc_call_seconds", &labels),
        })
    }

    /// A call was answered.
    pub(super) fn answered(&self, took: Duration) {
        self.calls.increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

impl ServerMetrics {
    /// Those of the server with this name.
    pub(super) fn new(server: &str) -> Self {
        describe();
        let labels = [("server", server.to_owned())];
        Self {
            server: server.to_owned(),
            open: gauge!("cadastre_rpc_connections_open", &labels),
            accepted: counter!("cadastre_rpc_connections_total", &labels),
            refused: counter!("cadastre_rpc_connections_refused_total", &labels),
            expired: counter!("cadastre_rpc_calls_expired_total", &labels),
            panics: counter!("cadastre_rpc_call_panics_total", &labels),
            received: counter!("cadastre_rpc_received_bytes_total", &labels),
            sent: counter!("cadastre_rpc_sent_bytes_total", &labels),
            calls_in_flight: gauge!("cadastre_rpc_calls_in_flight", &labels),
            queue_seconds: histogram!("cadastre_rpc_queue_seconds", &labels),
            methods: Mutex::default(),
            others: Service::ALL
                .iter()
                .map(|service| (*service, MethodMetrics::new(server, *service, OTHER)))
                .collect(),
        }
    }

    /// Those of a method. `succeeded`: a call of it did, so the name is no invention of a peer's.
    pub(super) fn method(
        &self,
        service: Service,
        method: &str,
        succeeded: bool,
    ) -> Arc<MethodMetrics> {
        let mut methods = self
            .methods
            .lock()
            .expect("nothing panics while it is held");
        let key = (service, method.to_owned());
        if let Some(known) = methods.get(&key) {
            return Arc::clone(known);
        }
        if !succeeded || methods.len() >= METHODS_MAX {
            return Arc::clone(&self.others[&service]);
        }
        let new = MethodMetrics::new(&self.server, service, method);
        methods.insert(key, Arc::clone(&new));
        new
    }

    /// A call was answered with an exception.
    pub(super) fn exception(&self, code: Code) {
        counter!("cadastre_rpc_exceptions_total", "server" => self.server.clone(), "class" => cadastre_wire::exception::class(code))
            .increment(1);
    }

    /// A connection was closed.
    pub(super) fn closed(&self, reason: &'static str) {
        counter!("cadastre_rpc_connections_closed_total", "server" => self.server.clone(), "reason" => reason)
            .increment(1);
    }
}

fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};

    describe_gauge!("cadastre_rpc_connections_open", "Connections open now");
    describe_counter!("cadastre_rpc_connections_total", "Connections accepted");
    describe_counter!(
        "cadastre_rpc_connections_refused_total",
        "Connections closed at once because there were too many"
    );
    describe_counter!(
        "cadastre_rpc_connections_closed_total",
        "Connections closed, by reason"
    );
    describe_counter!("cadastre_rpc_calls_total", "Calls answered");
    describe_histogram!(
        "cadastre_rpc_call_seconds",
        "Time from a call's start to its answer"
    );
    describe_histogram!(
        "cadastre_rpc_queue_seconds",
        "Time from a request's arrival to its start"
    );
    describe_gauge!("cadastre_rpc_calls_in_flight", "Calls waiting or running");
    describe_counter!(
        "cadastre_rpc_calls_expired_total",
        "Calls dropped because their deadline had passed"
    );
    describe_counter!("cadastre_rpc_call_panics_total", "Calls that panicked");
    describe_counter!(
        "cadastre_rpc_exceptions_total",
        "Exceptions answered, by Java class"
    );
    describe_counter!("cadastre_rpc_received_bytes_total", "Bytes read");
    describe_counter!("cadastre_rpc_sent_bytes_total", "Bytes written");
}
