//! Link-local addresses, in a network namespace with two interfaces.

use std::process::Command;

use festina::security::{ClientSecurity, Identity, ServerSecurity, Sessions, Trust};
use festina::{ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, ServerConfig, parse_address};

use crate::encrypted::with;
use crate::support::in_time;

const INSIDE: &str = "FESTINA_TEST_LINK_LOCAL";
const SET_UP: &str = "ip link set lo up; ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up; \
    ip addr add fe80::1/64 dev v0 nodad; ip addr add fe80::2/64 dev v1 nodad";

#[test]
fn a_link_local_server_is_reached_with_the_name_and_the_number_of_its_zone() {
    let test = "link_local::a_link_local_server_is_reached_with_the_name_and_the_number_of_its_zone";
    if std::env::var_os(INSIDE).is_some() {
        return tokio::runtime::Runtime::new().unwrap().block_on(inside());
    }
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-ec", script]).arg(std::env::current_exe().unwrap());
        command.env(INSIDE, "yes").output()
    };
    if !unshare(SET_UP).is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "continuous integration has unshare and ip");
        return eprintln!("skipped: there are no namespaces, or there is no command ip");
    }
    let output = unshare(&format!("{SET_UP}; exec \"$0\" --exact {test}")).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

async fn inside() {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).unwrap().der().to_vec();
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::from_params(&authority, &authority_key);
    let leaf = rcgen::CertificateParams::new(["fe80::1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let identity = Identity::from_der([leaf.der().to_vec()], key.serialize_der()).unwrap();

    let server = Endpoint::server("[::]:0".parse().unwrap(), with(ServerSecurity::new(identity))).await.unwrap();
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let port = server.local_addr().port();
    let by_name = format!("[fe80::1%v1]:{port}");
    let by_number = parse_address(&by_name).unwrap().to_string();
    assert!(by_number.contains('%') && by_number != by_name, "{by_number}");
    // The server's name is the address, and its certificate does not know about zones.
    let sessions = Sessions::new(1);
    let trust = Trust::roots_from_der([root]);
    let settings = with(ClientSecurity::new(trust).with_sessions(sessions.clone()));
    let client = Endpoint::client("[::]:0".parse().unwrap(), settings).await.unwrap();
    let named = ConnectOptions::default().server_name("fe80::1%v1");
    for (host, options) in
        [(&by_name, ConnectOptions::default()), (&by_number, ConnectOptions::default()), (&by_name, named)]
    {
        let near = in_time(client.connect_with(host, options)).await.unwrap();
        let far = in_time(listener.accept()).await.unwrap();
        // The shown address of a peer can be connected to.
        assert!(far.remote_addr().to_string().starts_with("[fe80::2%"), "{}", far.remote_addr());
        assert_eq!(parse_address(&near.remote_addr().to_string()), Ok(near.remote_addr()));
        // By the time that an answer has come, the session has.
        far.send("answer").await.unwrap();
        in_time(near.recv()).await.unwrap();
        assert!(sessions.forget(host), "{host}");
        near.abort("enough");
    }
    let bound = Endpoint::server(parse_address("[fe80::2%v1]:0").unwrap(), ServerConfig::plain()).await.unwrap();
    assert!(bound.local_addr().to_string().starts_with("[fe80::2%"));
    for (host, words) in [
        (format!("[fe80::1]:{port}"), "a link-local address needs a zone, such as %eth0"),
        (format!("[fe80::1%v9]:{port}"), "\"v9\" is no network interface of this machine"),
    ] {
        let error: ConnectError = in_time(client.connect_with(&host, ConnectOptions::default())).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
