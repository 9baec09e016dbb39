//! Gives the shared library the name under which programs that are linked with it look for it.

fn main() {
    let version = |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // Before 1.0 every minor version may break programs.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfestina.so.{}.{}", version("MAJOR"), version("MINOR"));
    }
    println!("cargo:rerun-if-changed=build.rs");
}
