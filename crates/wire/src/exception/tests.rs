//! The table against section 9.1, and both forms of travel.

use cadastre_types::ErrorKind;
use proptest::prelude::*;

use super::*;

fn error(code: Code) -> Error {
    Error::new(code, "what happened")
}

#[test]
fn every_code_is_in_the_table() {
    for code in Code::ALL {
        assert!(java(*code).is_some(), "{code:?}");
    }
}

/// Section 9.1, written down a second time.
#[test]
fn classes_of_section_9() {
    let retried = [
        (Code::NotServingRegion, "NotServingRegionException"),
        (Code::RegionOpening, "exceptions.RegionOpeningException"),
        (
            Code::RegionServerStopped,
            "regionserver.RegionServerStoppedException",
        ),
        (
            Code::RegionServerAborted,
            "regionserver.RegionServerAbortedException",
        ),
        (
            Code::ServerNotRunningYet,
            "ipc.ServerNotRunningYetException",
        ),
        (Code::RegionTooBusy, "RegionTooBusyException"),
        (Code::CallQueueTooBig, "CallQueueTooBigException"),
        (Code::CallDropped, "CallDroppedException"),
        (Code::MultiActionResultTooLarge, "MultiActionResultTooLarge"),
        (Code::WrongRegion, "regionserver.WrongRegionException"),
        (Code::RegionOffline, "client.RegionOfflineException"),
        (Code::TimeoutIo, "exceptions.TimeoutIOException"),
        (Code::PleaseHold, "PleaseHoldException"),
        (Code::MasterNotRunning, "MasterNotRunningException"),
        (Code::MasterDeposed, "YouAreDeadException"),
    ];
    let last = [
        (Code::UnknownScanner, "UnknownScannerException"),
        (
            Code::OutOfOrderScannerNext,
            "exceptions.OutOfOrderScannerNextException",
        ),
        (Code::ScannerReset, "exceptions.ScannerResetException"),
        (Code::LeaseException, "regionserver.LeaseException"),
        (
            Code::NoSuchColumnFamily,
            "regionserver.NoSuchColumnFamilyException",
        ),
        (Code::TableNotFound, "TableNotFoundException"),
        (Code::TableExists, "TableExistsException"),
        (Code::TableNotEnabled, "TableNotEnabledException"),
        (Code::TableNotDisabled, "TableNotDisabledException"),
        (Code::NamespaceNotFound, "NamespaceNotFoundException"),
        (Code::NamespaceExist, "NamespaceExistException"),
        (
            Code::InvalidFamilyOperation,
            "InvalidFamilyOperationException",
        ),
        (Code::Constraint, "constraint.ConstraintException"),
        (
            Code::FailedSanityCheck,
            "exceptions.FailedSanityCheckException",
        ),
        (Code::RequestTooBig, "exceptions.RequestTooBigException"),
        (Code::RowTooBig, "client.RowTooBigException"),
        (Code::UnknownProtocol, "exceptions.UnknownProtocolException"),
        (Code::RegionState, "client.DoNotRetryRegionException"),
        (Code::UnknownRegion, "UnknownRegionException"),
        (Code::MergeRegion, "exceptions.MergeRegionException"),
        (Code::AccessDenied, "security.AccessDeniedException"),
        (Code::DoNotRetryIo, "DoNotRetryIOException"),
        (Code::FatalConnection, "ipc.FatalConnectionException"),
        (Code::WrongVersion, "ipc.WrongVersionException"),
        (Code::BadAuth, "ipc.BadAuthException"),
        (Code::UnknownService, "ipc.UnknownServiceException"),
        (
            Code::UnsupportedCellCodec,
            "ipc.UnsupportedCellCodecException",
        ),
        (
            Code::UnsupportedCompressionCodec,
            "ipc.UnsupportedCompressionCodecException",
        ),
        (Code::SecurityNotEnabled, "ipc.SecurityNotEnabledException"),
    ];
    let all = retried
        .map(|it| (it, false))
        .into_iter()
        .chain(last.map(|it| (it, true)));
    for ((code, short), do_not_retry) in all {
        let sent = to_response(&error(code));
        let class = format!("org.apache.hadoop.hbase.{short}");
        assert_eq!(sent.exception_class_name.as_deref(), Some(&class[..]));
        assert_eq!(sent.do_not_retry, Some(do_not_retry), "{code:?}");
        assert_eq!(super::code(&class), Some(code));
        let text = sent.stack_trace.unwrap();
        if is_bare(code) {
            assert_eq!(text, "what happened");
        } else {
            assert_eq!(text, format!("{class}: what happened"));
        }
        assert_eq!(class_of_pair(code), class);
    }
    assert_eq!(super::class(Code::Io), "java.io.IOException");
}

fn class_of_pair(code: Code) -> String {
    to_pair(&error(code)).name
}

#[test]
fn final_errors_are_final_on_the_wire_and_only_they() {
    for code in Code::ALL {
        let sent = to_response(&error(*code));
        let last = matches!(
            code.kind(),
            ErrorKind::Invalid | ErrorKind::TooBig | ErrorKind::Corrupt | ErrorKind::Internal
        );
        assert_eq!(sent.do_not_retry, Some(last), "{code:?}");
        assert!(sent.exception_class_name.is_some() && sent.stack_trace.is_some());
        let overloaded = matches!(code, Code::CallQueueTooBig | Code::CallDropped);
        assert_eq!(sent.server_overloaded, overloaded.then_some(true));
    }
}

#[test]
fn codes_come_back_or_become_their_plainest_kin() {
    for code in Code::ALL {
        let expected = match code {
            Code::Fenced | Code::RegionMoved => Code::NotServingRegion,
            Code::MasterStopped => Code::ServerNotRunningYet,
            Code::Corrupt | Code::Internal | Code::LogTruncated => Code::DoNotRetryIo,
            Code::NotSent | Code::OutcomeUnknown | Code::NoServerForRegion | Code::Remote => {
                Code::Io
            }
            code => *code,
        };
        for back in [
            from_response(&to_response(&error(*code))),
            from_pair(&to_pair(&error(*code))),
        ] {
            assert_eq!(back.code(), expected, "{code:?}");
            assert_eq!(back.message(), "what happened", "{code:?}");
        }
    }
}

#[test]
fn a_moved_region_says_where_to_by_the_letter() {
    let moved = MovedTo {
        server: ServerName {
            host: "h1.example".to_owned(),
            port: 16020,
            start_code: 1_700_000_000_000,
        },
        sequence_number: 42,
    };
    let error = Error::new(Code::RegionMoved, "moved").with_detail(Detail::Moved(moved.clone()));
    let sent = to_response(&error);
    assert_eq!(
        sent.stack_trace.as_deref(),
        Some(
            "org.apache.hadoop.hbase.exceptions.RegionMovedException: Region moved to: \
             hostname=h1.example port=16020 startCode=1700000000000. As of locationSeqNum=42."
        )
    );
    assert_eq!(sent.hostname.as_deref(), Some("h1.example"));
    assert_eq!(sent.port, Some(16020));
    assert_eq!(sent.do_not_retry, Some(false));
    for back in [from_response(&sent), from_pair(&to_pair(&error))] {
        assert_eq!(back.code(), Code::RegionMoved);
        assert_eq!(back.detail(), Some(&Detail::Moved(moved.clone())));
    }
    // Without a place, or with one that cannot be read, it is only "not here".
    let broken = pb::ExceptionResponse {
        exception_class_name: sent.exception_class_name,
        stack_trace: Some("Region moved to: hostname= port=x".to_owned()),
        ..Default::default()
    };
    assert_eq!(from_response(&broken).code(), Code::NotServingRegion);
}

#[test]
fn unsupported_calls_are_caused_by_unsupported_operation() {
    let error = Error::unsupported("SetQuota");
    let sent = to_response(&error);
    let class = "org.apache.hadoop.hbase.DoNotRetryIOException";
    assert_eq!(sent.exception_class_name.as_deref(), Some(class));
    assert_eq!(sent.do_not_retry, Some(true));
    let cause = "java.lang.UnsupportedOperationException: SetQuota is not supported by Cadastre";
    assert_eq!(
        sent.stack_trace.as_deref(),
        Some(&format!("{class}: {cause}\nCaused by: {cause}")[..])
    );
    assert_eq!(from_response(&sent), error);
}

#[test]
fn a_java_stack_is_cut_to_its_message() {
    let response = |class: &str, text: &str| pb::ExceptionResponse {
        exception_class_name: Some(class.to_owned()),
        stack_trace: Some(text.to_owned()),
        do_not_retry: Some(true),
        ..Default::default()
    };
    let class = "org.apache.hadoop.hbase.TableNotFoundException";
    let read = from_response(&response(
        class,
        &format!("{class}: t1\n\tat a.b.C.d(C.java:1)\nCaused by: x"),
    ));
    assert_eq!((read.code(), read.message()), (Code::TableNotFound, "t1"));

    let class = "org.apache.hadoop.hbase.quotas.SpaceLimitingException";
    let read = from_response(&response(class, &format!("{class}: full\n\tat x")));
    assert_eq!((read.code(), read.message()), (Code::Remote, "full"));
    assert_eq!(read.kind(), ErrorKind::Invalid);
    // Passed on, it stays what it was.
    let again = to_response(&read);
    assert_eq!(again.exception_class_name.as_deref(), Some(class));
    assert_eq!(again.do_not_retry, Some(true));

    for (class, code) in [
        (
            "org.apache.hadoop.hbase.exceptions.MasterStoppedException",
            Code::MasterStopped,
        ),
        (
            "org.apache.hadoop.hbase.client.NoServerForRegionException",
            Code::NoServerForRegion,
        ),
        ("java.io.IOException", Code::Io),
        ("", Code::Remote),
    ] {
        assert_eq!(from_response(&response(class, "m")).code(), code);
    }
}

proptest! {
    #[test]
    fn any_text_is_read(class in ".{0,60}", text in ".{0,200}", last in any::<Option<bool>>()) {
        let read = from_response(&pb::ExceptionResponse {
            exception_class_name: Some(class.clone()),
            stack_trace: Some(text.clone()),
            do_not_retry: last,
            ..Default::default()
        });
        prop_assert!(read.message().len() <= text.len());
        from_pair(&pb::NameBytesPair { name: class, value: Some(text.into()) });
    }

    #[test]
    fn any_message_comes_back(index in 0..Code::ALL.len(), text in "[a-z ]{0,20}[a-z]") {
        let sent = Error::new(Code::ALL[index], text.clone());
        let back = from_response(&to_response(&sent));
        prop_assert_eq!(back.message(), text);
    }

    #[test]
    fn any_place_comes_back(host in "[a-z0-9.-]{1,40}", port: u16, start_code: u64, sequence_number: u64) {
        let moved = MovedTo { server: ServerName { host, port, start_code }, sequence_number };
        let error = Error::new(Code::RegionMoved, "").with_detail(Detail::Moved(moved.clone()));
        let back = from_response(&to_response(&error));
        prop_assert_eq!(back.detail(), Some(&Detail::Moved(moved)));
    }
}
