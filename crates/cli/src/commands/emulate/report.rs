//! What an emulated network did, as a table.

use std::time::Duration;

use festina_emulate::{Lateness, Passage};
use festina_netsim::LinkCounters;

/// What both links did.
#[derive(Debug)]
pub(super) struct Report {
    /// What the network joins.
    pub(super) title: String,
    pub(super) there: Way,
    pub(super) back: Way,
    pub(super) lateness: Lateness,
    /// What else there is to say, one line each.
    pub(super) notes: Vec<String>,
}

/// What one link did.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) link: LinkCounters,
    pub(super) passage: Passage,
}

impl Report {
    /// What the network between two TUN devices did.
    #[cfg(target_os = "linux")]
    pub(super) fn of_devices(title: String, counters: &festina_emulate::TunCounters) -> Self {
        let mut notes = Vec::new();
        if counters.send_failed > 0 {
            notes.push(format!("{} packets were refused by a device", counters.send_failed));
        }
        Self {
            title,
            there: Way { link: counters.forward, passage: counters.forward_passage },
            back: Way { link: counters.backward, passage: counters.backward_passage },
            lateness: counters.lateness,
            notes,
        }
    }

    /// A table, and sentences below it.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:<22}{:>14}{:>14}", self.title, "there", "back");
        for (name, value) in ROWS {
            let [there, back] = [&self.there, &self.back].map(value);
            text += &format!("\n{name:<22}{there:>14}{back:>14}");
        }
        text += &format!("\n{}", lateness_text(&self.lateness));
        for note in &self.notes {
            text += &format!("\n{note}");
        }
        text
    }
}

/// A line of the table: what it is called, and what stands there for one way.
type Row = (&'static str, fn(&Way) -> String);

const ROWS: [Row; 15] = [
    ("packets offered", |way| way.link.offered.to_string()),
    ("bytes offered", |way| way.link.offered_bytes.bytes().to_string()),
    ("packets delivered", |way| way.link.delivered.to_string()),
    ("bytes delivered", |way| way.link.delivered_bytes.bytes().to_string()),
    ("lost", |way| way.link.lost.to_string()),
    ("dropped by the queue", |way| way.link.queue_dropped.to_string()),
    ("marked by the queue", |way| way.link.congestion_marked.to_string()),
    ("reordered", |way| way.link.reordered.to_string()),
    ("duplicated", |way| way.link.duplicated.to_string()),
    ("corrupted", |way| way.link.corrupted.to_string()),
    ("longest queue, packets", |way| way.passage.queue_packets_max.to_string()),
    ("longest queue, bytes", |way| way.passage.queue_bytes_max.bytes().to_string()),
    ("least delay, ms", |way| milliseconds(way.passage.delay_min)),
    ("mean delay, ms", |way| milliseconds(way.passage.delay_mean())),
    ("most delay, ms", |way| milliseconds(way.passage.delay_max)),
];

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

fn lateness_text(lateness: &Lateness) -> String {
    let (mean_us, max_us) = (lateness.mean().as_micros(), lateness.max.as_micros());
    format!("delivered {mean_us} us late on average, {max_us} us at worst")
}
