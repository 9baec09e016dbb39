//! The simulator's page with the network and the traffic of a plan or result.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use festina_lab::plan::Scale;
use serde_json::Value;

use super::Ground;
use super::job::PlanText;
use crate::output;
use crate::usage::UsageError;

/// The most bytes of a result.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// Parameters by their names: times in milliseconds, shares of one.
type Parameters = BTreeMap<String, f64>;

/// The settings of the page for the first point of a plan or result, as the fragment of its address; `None` if the name is none of a file.
pub(super) fn settings_of(name: &str) -> Result<Option<String>> {
    let parameters = if let Some(plan) = PlanText::read(name)? {
        let (_, plan, _) = plan.plan(Scale::Full, Ground::Simulator)?;
        let points = plan.points();
        let values = points.first().map(|point| point.values()).unwrap_or_default();
        values.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.as_number()?))).collect()
    } else if Path::new(name).extension().is_some_and(|extension| extension == "json") {
        of_result(name)?
    } else {
        return Ok(None);
    };
    let settings = settings(&parameters).ok_or_else(|| {
        UsageError::new(format!(
            "{name} has no parameter rtt, loss, iat or interval, which the simulator's page could show"
        ))
    })?;
    Ok(Some(settings))
}

fn of_result(name: &str) -> Result<Parameters> {
    let failed = || format!("cannot read the result {name}");
    let size = std::fs::metadata(name).with_context(failed)?.len();
    if size > RESULT_BYTES_MAX {
        return Err(UsageError::new(format!("the result {name} has more than {RESULT_BYTES_MAX} bytes")).into());
    }
    let result: Value = serde_json::from_slice(&std::fs::read(name).with_context(failed)?).with_context(failed)?;
    let Some(parameters) = result.pointer("/points/0/parameters").and_then(Value::as_object) else {
        return Err(UsageError::new(format!("{name} is no result of festina lab, such as lab/md1/summary.json")).into());
    };
    let number = |value: &Value| {
        let share = if value.get("unit").and_then(Value::as_str) == Some("%") { 100.0 } else { 1.0 };
        Some(value.get("value").unwrap_or(value).as_f64()? / share)
    };
    Ok(parameters.iter().filter_map(|(name, value)| Some((name.clone(), number(value)?))).collect())
}

/// The page counts loss in thousandths.
fn settings(parameters: &Parameters) -> Option<String> {
    let shown = [("loss", "loss", 1e3), ("rtt", "rtt", 1.0), ("iat", "interval", 1.0), ("interval", "interval", 1.0)];
    let settings: Vec<String> = shown
        .iter()
        .filter_map(|(name, shown, factor)| Some(format!("{shown}={:.0}", parameters.get(*name)? * factor)))
        .collect();
    (!settings.is_empty()).then(|| settings.join("&"))
}

/// Prints the address of the page with these settings, and opens it in a browser if there is a screen.
pub(super) fn open(page: Option<&str>, settings: &str) -> Result<()> {
    let page = match page {
        Some(address) if address.contains("://") => address.to_owned(),
        Some(file) => address_of(Path::new(file)).with_context(|| format!("there is no page {file}"))?,
        None => built().ok_or_else(|| {
            UsageError::new("the simulator's page is not built: run site/playground/build, or name it with --page")
        })?,
    };
    let address = format!("{page}#{settings}");
    output::print(&address)?;
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opener = if cfg!(target_os = "macos") { Some("open") } else { has_screen.then_some("xdg-open") };
    if let Some(opener) = opener.filter(|_| std::io::stdout().is_terminal()) {
        // The address is printed, so a browser that does not start is no failure.
        let _ =
            Command::new(opener).arg(&address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
    Ok(())
}

/// The page that site/playground/build writes, beside the folder of this program.
fn built() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().skip(1).take(2).map(PathBuf::from);
    folders.chain([PathBuf::from("target")]).find_map(|folder| address_of(&folder.join("playground.html")))
}

/// The address of a file, with letters that would mean something else written as numbers.
fn address_of(file: &Path) -> Option<String> {
    let path = file.canonicalize().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let escaped: String = path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    Some(format!("file://{escaped}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_and_a_result_lead_to_settings_of_the_page() {
        let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/thin-latency.toml");
        assert_eq!(settings_of(plan).expect("a plan"), Some("loss=50&rtt=100&interval=250".to_owned()));
        assert_eq!(settings_of("md1-quick").expect("a name"), None);

        let folder = std::env::temp_dir().join(format!("festina-view #{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let result = folder.join("summary.json");
        let text = r#"{"points":[{"parameters":{"rtt":{"value":75.0,"unit":"ms"},"loss":{"value":2.5,"unit":"%"},"sender":"rack"}}]}"#;
        std::fs::write(&result, text).expect("a file");
        let name = result.to_str().expect("a name");
        assert_eq!(settings_of(name).expect("a result"), Some("loss=25&rtt=75".to_owned()));
        assert!(address_of(&result).is_some_and(|address| address.contains("/festina-view%20%23")));
        std::fs::write(&result, r#"{"points":[]}"#).expect("a file");
        assert!(settings_of(name).is_err_and(|error| error.to_string().contains("no result")));
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }
}
