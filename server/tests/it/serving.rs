//! Starting, announcing, stopping.

use crate::program::{Serving, command, run};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn dev(data: &Path) -> Command {
    let mut command = command(&["--dev"]);
    command.env("WHIPPET_DATA_DIR", data);
    command
}

#[test]
fn start_up_lines_tell_everything() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    let server = Serving::start(&mut dev(&data));
    let root = data.canonicalize().expect("the directory was made");
    let expected = [
        format!("whippet 0.1.0 (pid {})", server.pid()),
        format!("data directory   {}", root.display()),
        format!("listening        tcp  {}", server.address("tcp")),
        format!("listening        http http://{}", server.address("http")),
        "root user        iggy (password from configuration)".to_owned(),
    ];
    assert_eq!(server.lines[..5], expected);
    let ready = server.lines[5].strip_prefix("ready in ").and_then(|rest| rest.strip_suffix(" ms"));
    assert!(ready.is_some_and(|number| number.parse::<u64>().is_ok()), "{:?}", server.lines);
    for listener in ["tcp", "http"] {
        TcpStream::connect(server.address(listener)).expect("somebody listens");
    }
}

#[test]
fn signals_stop_cleanly_and_the_root_user_stays() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    for (signal, root) in [
        ("TERM", "root user        iggy (password from configuration)"),
        ("INT", "root user        iggy (password unchanged since the first start)"),
        ("HUP", "root user        iggy (password unchanged since the first start)"),
    ] {
        let server = Serving::start(&mut dev(&data));
        assert_eq!(server.lines[4], root);
        // Open connections do not hold the stop up.
        let _idle = [TcpStream::connect(server.address("tcp")), TcpStream::connect(server.address("http"))];
        server.signal(signal);
        let (status, took, err) = server.wait();
        assert!(status.success(), "{signal}: {status}\n{err}");
        assert!(took < Duration::from_secs(5), "{signal}: {took:?}\n{err}");
    }
}

#[test]
fn a_password_is_made_up_once() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    let server = Serving::start(command(&[]).env("WHIPPET_DATA_DIR", &data));
    let line = server.lines[4].clone();
    let password = line
        .strip_prefix("root user        iggy (password generated now and shown once: ")
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or_else(|| panic!("{line}"));
    assert_eq!(password.len(), 24);
    assert!(password.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{password}");
    let login = |password: &str| {
        let address = server.address("tcp");
        let arguments = [
            "bench",
            "small",
            "--address",
            &address,
            "--producers",
            "1",
            "--streams",
            "1",
            "--duration",
            "50ms",
            "--password",
            password,
        ];
        run(&mut command(&arguments))
    };
    let right = login(password);
    assert_eq!(right.code, Some(0), "{}", right.err);
    let wrong = login("not the password");
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("wrong user name or password"), "{}", wrong.err);
    server.signal("TERM");
    assert!(server.wait().0.success());
    let again = Serving::start(command(&[]).env("WHIPPET_DATA_DIR", &data));
    assert_eq!(again.lines[4], "root user        iggy (password unchanged since the first start)");
}

#[test]
fn another_configured_password_is_warned_about() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    let first = Serving::start(&mut dev(&data));
    first.signal("TERM");
    assert!(first.wait().0.success());
    let mut other = dev(&data);
    other.env("WHIPPET_ROOT_USERNAME", "iggy").env("WHIPPET_ROOT_PASSWORD", "another-one");
    let second = Serving::start(&mut other);
    // The comparison runs beside the service; a login behind it in the queue waits for it.
    let address = second.address("tcp");
    let login = run(&mut command(&[
        "bench",
        "small",
        "--address",
        &address,
        "--producers",
        "2",
        "--streams",
        "1",
        "--duration",
        "500ms",
    ]));
    assert_eq!(login.code, Some(0), "the first password stays valid: {}", login.err);
    second.signal("TERM");
    let (status, _, err) = second.wait();
    assert!(status.success());
    assert!(err.contains("the one of the first start stays valid"), "{err}");
    assert!(!err.contains("another-one"), "{err}");
}

#[test]
fn a_second_server_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    let server = Serving::start(&mut dev(&data));
    let second = run(dev(&data).env("WHIPPET_TCP_ADDRESS", "127.0.0.1:0").env("WHIPPET_HTTP_ADDRESS", "127.0.0.1:0"));
    assert_eq!(second.code, Some(1));
    assert!(second.err.contains(&format!("is in use by process {}", server.pid())), "{}", second.err);
}

#[test]
fn an_address_in_use_is_named_with_a_way_out() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = run(dev(&folder.path().join("data"))
        .env("WHIPPET_TCP_ADDRESS", "127.0.0.1:0")
        .env("WHIPPET_HTTP_ADDRESS", &address));
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.ends_with(&format!(
            "whippet: another process listens on {address} already; stop it, or set another http.address (WHIPPET_HTTP_ADDRESS), where port 0 takes a free one\n"
        )),
        "{}",
        refused.err
    );
}

#[test]
fn reserved_settings_are_warned_about() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut reserved = dev(&folder.path().join("data"));
    reserved.env("WHIPPET_QUIC_ADDRESS", "127.0.0.1:8080").env("WHIPPET_LOG_FORMAT", "json");
    let server = Serving::start(&mut reserved);
    server.signal("TERM");
    let (status, _, err) = server.wait();
    assert!(status.success());
    let line = err.lines().find(|line| line.contains("quic.address")).unwrap_or_else(|| panic!("{err}"));
    let object: serde_json::Value = serde_json::from_str(line).expect("each line is an object");
    assert_eq!(object["level"], "WARN");
    assert!(object["message"].as_str().is_some_and(|text| text.contains("does not serve QUIC yet")), "{line}");
}

#[test]
fn the_benchmark_measures_this_server() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let server = Serving::start(&mut dev(&folder.path().join("data")));
    let (address, pid) = (server.address("tcp"), server.pid().to_string());
    let bench = |arguments: &[&str]| {
        let finished = run(command(&["bench"]).args(arguments).args(["--address", &address, "--pid", &pid, "--json"]));
        assert_eq!(finished.code, Some(0), "{}", finished.err);
        serde_json::from_str::<serde_json::Value>(&finished.out).expect("one object")
    };
    let produced = bench(&[
        "produce",
        "--producers",
        "2",
        "--streams",
        "2",
        "--messages-per-batch",
        "10",
        "--total-bytes",
        "200KB",
    ]);
    assert_eq!(
        (&produced["requests"], &produced["messages"], &produced["payload_bytes"]),
        (&20.into(), &200.into(), &200_000.into())
    );
    assert!(produced["server"]["resident_bytes"].as_u64() > Some(1_000_000));
    let consumed = bench(&["consume", "--consumers", "2", "--streams", "2", "--duration", "300ms", "--cleanup"]);
    let messages = consumed["messages"].as_u64().expect("a number");
    assert!(messages >= 200, "{consumed}");
    assert_eq!(consumed["payload_bytes"], messages * 1000, "every message comes back with its payload");
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let server = Serving::start(&mut dev(&folder.path().join("data")));
    let address = server.address("http");
    // A request whose body does not come keeps a clean stop waiting.
    let mut slow = TcpStream::connect(&address).expect("somebody listens");
    let head = "POST /users/login HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    slow.write_all(head.as_bytes()).expect("write");
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).expect("the server waits for the body");
    assert_eq!(&answer, b"HTTP/1.1 100");
    server.signal("TERM");
    while TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    let second = Instant::now();
    server.signal("TERM");
    let (status, _, err) = server.wait();
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(second.elapsed() < Duration::from_secs(2), "it did not wait for the request");
    assert!(err.contains("ended at once"), "{err}");
}
