//! Servers that the operating system's certificate authorities have signed. The roots are read once per process, so each case has one of its own.

use std::path::Path;
use std::process::Command;

use festina::security::{ClientSecurity, Identity, SecurityFailure, ServerSecurity, Trust};
use festina::{ClientConfig, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT};

use crate::encrypted::with;
use crate::identity::signed;
use crate::support::{endpoint_with, in_time};

/// The variable by which a child knows the folder with its files.
const FOLDER: &str = "FESTINA_TEST_PLATFORM_ROOTS";

/// Runs a test of this module in a process whose operating system trusts only the roots in a file.
fn run_alone(test: &str, folder: &Path, roots: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("roots.pem"), roots).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([&format!("platform::{test}"), "--exact"]).env(FOLDER, folder);
    child.env("SSL_CERT_FILE", folder.join("roots.pem")).env_remove("SSL_CERT_DIR");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    std::fs::remove_dir_all(folder).unwrap();
}

fn scratch(test: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("festina-platform-{}-{test}", std::process::id()))
}

async fn connect(server: &Identity, client: ClientConfig, name: &str) -> Result<(), ConnectError> {
    let server = endpoint_with(with(ServerSecurity::new(server.clone()))).await;
    let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let client = endpoint_with(client).await;
    in_time(client.connect_with(server.local_addr(), ConnectOptions::default().server_name(name))).await.map(|_| ())
}

#[test]
fn a_server_is_known_by_a_root_of_the_operating_system_and_its_name() {
    let test = "a_server_is_known_by_a_root_of_the_operating_system_and_its_name";
    let Some(folder) = std::env::var_os(FOLDER) else {
        let (root, identity) = signed("server.test", "one");
        let folder = scratch("known");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("server.pem"), identity.to_pem()).unwrap();
        run_alone(test, &folder, &pem::encode(&pem::Pem::new("CERTIFICATE", root)));
        return;
    };
    let identity = std::fs::read(Path::new(&folder).join("server.pem")).unwrap();
    let identity = Identity::from_pem(&identity, &identity).unwrap();
    let (_, stranger) = signed("server.test", "other");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let named = with(ClientSecurity::new(Trust::platform_roots()));
        connect(&identity, named, "server.test").await.unwrap();
        // It is the default.
        connect(&identity, ClientConfig::default(), "server.test").await.unwrap();
        let failure = async |identity, name| match connect(identity, ClientConfig::default(), name).await {
            Err(ConnectError::Security { failure: SecurityFailure::Untrusted(why), .. }) => why,
            other => panic!("{other:?}"),
        };
        assert!(failure(&identity, "other.test").await.contains("other.test"));
        assert!(failure(&stranger, "server.test").await.starts_with("no trusted root has signed it; "));
    });
}

#[test]
fn an_operating_system_without_roots_refuses_connections_and_nothing_else() {
    let test = "an_operating_system_without_roots_refuses_connections_and_nothing_else";
    if std::env::var_os(FOLDER).is_none() {
        return run_alone(test, &scratch("none"), "");
    }
    let (_, identity) = signed("server.test", "one");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        match connect(&identity, ClientConfig::default(), "server.test").await {
            Err(ConnectError::Security { failure: SecurityFailure::Settings(why), .. }) => {
                assert!(why.starts_with("the operating system has no trusted certificate authorities"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    });
}
