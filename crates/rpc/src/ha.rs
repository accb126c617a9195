//! The HA proxy: one client for several interchangeable servers of which one is active (P1 to P17).
//!
//! Flow of a call: a typed translator ([`crate::hadoop::ClientProtocol`] and its like) hands bytes to the loop ([`Proxy`]), which asks its
//! [`ProxyProvider`] for the current server's [`Invoker`], and after a failure the [`policy`] what to do: fail, try again here, or
//! fail over. [`create_proxy`] puts the layers together from a configuration.
//!
//! Nothing here knows a socket: an [`Engine`] makes invokers. Sleeps before a retry are slept in [`Proxy`] alone (P17).

pub mod config;
mod create;
mod engine;
mod failure;
pub mod hbase;
mod lossy;
mod master_service;
mod method;
pub mod policy;
mod provider;
mod proxy;
mod settings;
pub(crate) mod translate;

pub use create::{Created, Source, create_proxy};
pub use engine::{Engine, Engines, Target};
pub use failure::{Executed, Failed, Failure};
pub use lossy::{Loss, Lossy, LossyEngine};
pub use master_service::{MASTER_SERVICE, MasterService, MasterServiceClient};
pub use method::{Mark, Method, Protocol, Read};
pub use provider::{
    ActiveByLookup, ConfiguredFailover, IpFailover, Lookup, ObserverReads, ObserverSettings,
    ProxyProvider, RequestHedging, ServerState, StateProbe,
};
pub use proxy::{Call, CallIds, Caller, Event, Events, Invoker, Policies, Proxy};
pub use settings::{DEFAULT_PORT, NameService, ProviderKind, Settings, connections};
