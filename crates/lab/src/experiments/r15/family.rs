//! Which sender stands for what.

/// The senders of one protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) standard: &'static str,
    /// RTO restart.
    pub(crate) rtor: &'static str,
    /// The tail loss probe by R15's formula.
    pub(crate) tlp: &'static str,
    /// The same, and the probe timer restarts as RTO restart does.
    pub(crate) tlpr: &'static str,
    /// The same, and both timers restart so.
    pub(crate) tlpr_rtor: Option<&'static str>,
    /// RACK-TLP.
    pub(crate) rack: &'static str,
}

impl Family {
    /// TCP, which R15 measured.
    pub(crate) const TCP: Self = Self {
        name: "TCP",
        standard: "tcp-standard",
        rtor: "tcp-rtor",
        tlp: "tcp-tlp",
        tlpr: "tcp-tlpr",
        tlpr_rtor: Some("tcp-tlpr-rtor"),
        rack: "tcp-rack",
    };
    /// SCTP.
    pub(crate) const SCTP: Self = Self {
        name: "SCTP",
        standard: "rfc9260",
        rtor: "rto-restart",
        tlp: "tlp",
        tlpr: "tlpr",
        tlpr_rtor: None,
        rack: "rack",
    };
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::TCP, Self::SCTP];

    /// What R15 compares with the standard, and RACK-TLP.
    pub(crate) fn mechanisms(&self) -> [&'static str; 4] {
        [self.rtor, self.tlp, self.tlpr, self.rack]
    }

    /// The name of a check for the ledger; empty if R15 says nothing of the kind: it tells of TCP only, and not of RACK-TLP.
    pub(crate) fn id(&self, id: &str) -> String {
        let is_said = self.name == Self::TCP.name && !id.starts_with(self.rack);
        if is_said { id.to_owned() } else { String::new() }
    }

    /// TLPR by each reading of the thesis, which applies the idea of RTOR in TLP and combines both.
    pub(crate) fn restarted_probes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let both = self.tlpr_rtor.map(|tlpr| (tlpr, "both timers restart"));
        std::iter::once((self.tlpr, "the timer of the probe restarts")).chain(both)
    }

    /// Whether a sender is of this protocol.
    pub(crate) fn has(&self, sender: &str) -> bool {
        sender.starts_with("tcp-") == self.standard.starts_with("tcp-")
    }
}

/// What a sender is taken for if the standard and TLPR, and likewise RTO restart and RACK-TLP, are mistaken for each other.
pub(crate) fn swapped(sender: &str) -> &str {
    for family in &Family::ALL {
        for [one, other] in [[family.standard, family.tlpr], [family.rtor, family.rack]] {
            match sender {
                it if it == one => return other,
                it if it == other => return one,
                _ => {}
            }
        }
    }
    if sender == "festina" { Family::SCTP.standard } else { sender }
}
