//! What makes typed clients from a list of methods (P5): the protocol's trait, and its form over bytes. Knows no protocol.

use std::sync::Arc;

use cadastre_types::Result;
use cadastre_wire::Message;

use crate::ha::{Caller, Method};

/// One typed call.
pub(crate) async fn call<Q: Message, A: Message>(
    caller: Arc<dyn Caller>,
    method: &'static Method,
    request: Q,
) -> Result<A> {
    let answer = caller.call(method, cadastre_wire::encode(&request)).await?;
    cadastre_wire::decode(answer).map_err(|error| error.context(method.name))
}

/// A trait with one function for each method, and the struct that does them over a [`Caller`]. A method that is missing in the protocol's
/// table stops the compiler.
macro_rules! translator {
    (
        $(#[$trait_doc:meta])* trait $name:ident;
        $(#[$struct_doc:meta])* struct $client:ident over $protocol:ident;
        $($rust:ident $wire:literal $request:ident => $answer:ident;)*
    ) => {
        $(#[$trait_doc])*
        pub trait $name: Send + Sync {
            $(
                #[doc = concat!("`", $wire, "`.")]
                ///
                /// # Errors
                /// See [`Caller::call`](crate::ha::Caller::call).
                fn $rust(
                    &self,
                    request: pb::$request,
                ) -> impl std::future::Future<Output = cadastre_types::Result<pb::$answer>> + Send;
            )*
        }

        $(#[$struct_doc])*
        #[derive(Clone)]
        pub struct $client(std::sync::Arc<dyn crate::ha::Caller>);

        impl $client {
            /// Over a caller.
            ///
            /// # Panics
            /// If it is one of another protocol.
            pub fn new(caller: std::sync::Arc<dyn crate::ha::Caller>) -> Self {
                assert_eq!(caller.protocol().name, $protocol.name, "a caller of this protocol");
                Self(caller)
            }
        }

        impl $name for $client {
            $(
                fn $rust(
                    &self,
                    request: pb::$request,
                ) -> impl std::future::Future<Output = cadastre_types::Result<pb::$answer>> + Send
                {
                    const METHOD: &crate::ha::Method = $protocol.method($wire);
                    crate::ha::translate::call(std::sync::Arc::clone(&self.0), METHOD, request)
                }
            )*
        }

        /// Methods that are typed.
        #[cfg(test)]
        const TYPED: &[&str] = &[$($wire),*];
    };
}

pub(crate) use translator;
