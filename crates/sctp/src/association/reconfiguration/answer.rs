//! Requests of the peer, and their responses (RFC 6525 §5.2).

use festina_units::Instant;

use super::{Reconfiguration, Request};
use crate::association::Association;
use crate::association::reply::Reply;
use crate::event::{Direction, Event};
use crate::wire::{ReConfig, ReConfigParameter, ReConfigResult, StreamId, StreamList, Tsn};

/// Parameters that a RE-CONFIG chunk may hold (RFC 6525 §3.1).
const PARAMETERS_MAX: usize = 2;

/// The response to a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    request: u32,
    result: ReConfigResult,
}

/// The place of a request in the sequence of request numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is the next one.
    New,
    /// It was answered before, like this.
    Repeated(ReConfigResult),
    /// It is neither.
    Wrong,
}

/// A request of the peer.
#[derive(Clone, Copy, Debug)]
enum Asked<'a> {
    /// The peer resets its outgoing streams.
    Reset {
        response: u32,
        last_tsn: Tsn,
        streams: StreamList<'a>,
    },
    /// The peer asks this side to reset its outgoing streams.
    ResetHere(StreamList<'a>),
    Numbers,
    AddInbound(u16),
    AddOutbound(u16),
}

/// Returns whether these parameters may stand in one chunk (RFC 6525 §3.1).
fn may_stand_together(parameters: &[ReConfigParameter<'_>]) -> bool {
    use ReConfigParameter::{AddIncoming, AddOutgoing, IncomingReset, OutgoingReset, Response, Unknown};
    match parameters {
        [only] => !matches!(only, Unknown { .. }),
        [OutgoingReset { .. }, IncomingReset { .. } | Response { .. }]
        | [IncomingReset { .. } | Response { .. }, OutgoingReset { .. }]
        | [AddOutgoing { .. }, AddIncoming { .. }]
        | [AddIncoming { .. }, AddOutgoing { .. }]
        | [Response { .. }, Response { .. }] => true,
        _ => false,
    }
}

impl Reconfiguration {
    /// The order of requests (§5.2.1).
    fn place(&self, request: u32) -> Place {
        let repeated = self.answers.iter().flatten().find(|answer| answer.request == request);
        match repeated {
            Some(answer) => Place::Repeated(answer.result),
            None if request == self.expected => Place::New,
            None => Place::Wrong,
        }
    }

    /// A request is settled.
    fn answered(&mut self, request: u32, result: ReConfigResult) {
        let [newest, _] = self.answers;
        self.answers = [Some(Answer { request, result }), newest];
        self.expected = request.wrapping_add(1);
    }
}

impl Association {
    /// RE-CONFIG of a peer with which it was agreed on.
    pub(in crate::association) fn handle_re_config(&mut self, now: Instant, chunk: &ReConfig<'_>) {
        let mut parameters = [ReConfigParameter::Unknown { parameter_type: 0 }; PARAMETERS_MAX];
        let mut count = 0;
        for parameter in chunk.parameters() {
            match (parameter, parameters.get_mut(count)) {
                (Ok(parameter), Some(place)) => *place = parameter,
                _ => return self.refuse_re_config(),
            }
            count += 1;
        }
        let parameters = parameters.get(..count).unwrap_or_default();
        if !may_stand_together(parameters) {
            return self.refuse_re_config();
        }
        for parameter in parameters {
            let (request, asked) = match *parameter {
                ReConfigParameter::Response { response, result, .. } => {
                    self.handle_re_config_response(now, response, ReConfigResult::from_number(result));
                    continue;
                }
                ReConfigParameter::OutgoingReset { request, response, last_tsn, streams } => {
                    (request, Asked::Reset { response, last_tsn, streams })
                }
                ReConfigParameter::IncomingReset { request, streams } => (request, Asked::ResetHere(streams)),
                ReConfigParameter::NumbersReset { request } => (request, Asked::Numbers),
                ReConfigParameter::AddOutgoing { request, streams } => (request, Asked::AddInbound(streams)),
                ReConfigParameter::AddIncoming { request, streams } => (request, Asked::AddOutbound(streams)),
                ReConfigParameter::Unknown { .. } => continue,
            };
            if self.handle_request(now, request, asked) == ReConfigResult::InProgress {
                // The peer repeats the whole chunk.
                break;
            }
        }
        self.advance_reconfiguration(now);
    }

    fn refuse_re_config(&mut self) {
        self.control.reply_with(|| Reply::BadReConfig);
    }

    fn handle_request(&mut self, now: Instant, request: u32, asked: Asked<'_>) -> ReConfigResult {
        let result = match self.reconfiguration().place(request) {
            Place::Repeated(result) => result,
            Place::Wrong => ReConfigResult::BadSequenceNumber,
            Place::New => {
                // Bounds the events of an application that does not poll them.
                let result = if self.events.takes_changes() {
                    self.decide(now, request, asked)
                } else {
                    ReConfigResult::InProgress
                };
                if result != ReConfigResult::InProgress {
                    self.reconfiguration().answered(request, result);
                }
                result
            }
        };
        self.reply_to_request(request, result);
        result
    }

    fn decide(&mut self, now: Instant, request: u32, asked: Asked<'_>) -> ReConfigResult {
        let allowed = self.context.config().peer_requests;
        match asked {
            Asked::Reset { .. } | Asked::ResetHere(_) if !allowed.reset_streams => ReConfigResult::Denied,
            Asked::Reset { response, last_tsn, streams } => self.reset_inbound(now, response, last_tsn, streams),
            Asked::ResetHere(streams) => self.reset_outbound_for_peer(request, streams),
            Asked::Numbers => ReConfigResult::Denied,
            Asked::AddInbound(streams) => self.add_inbound(streams, allowed.add_streams),
            Asked::AddOutbound(streams) => self.add_outbound_for_peer(streams, allowed.add_streams),
        }
    }

    /// §5.2.2.
    fn reset_inbound(&mut self, now: Instant, response: u32, last_tsn: Tsn, streams: StreamList<'_>) -> ReConfigResult {
        let inbound = self.streams.inbound;
        let Some(receiver) = &mut self.receiver else { return ReConfigResult::Denied };
        if streams.iter().any(|stream| stream.0 >= inbound) {
            return ReConfigResult::WrongStream;
        }
        if !receiver.has_all_up_to(last_tsn) {
            return ReConfigResult::InProgress;
        }
        if streams.is_all() {
            receiver.reset_all_streams();
        } else {
            streams.iter().for_each(|stream| receiver.reset_stream(stream));
        }
        if receiver.has_message() && !core::mem::replace(&mut self.readable_told, true) {
            self.events.push(Event::Readable);
        }
        let streams: Box<[StreamId]> = streams.iter().collect();
        self.events.push_change(Event::StreamsReset { direction: Direction::Inbound, streams });
        let pending = self.reconfiguration().pending.as_ref();
        if pending
            .is_some_and(|pending| pending.number == response && matches!(pending.request, Request::PeerReset { .. }))
        {
            // This answers this side's request too, whose response may have been lost.
            self.handle_re_config_response(now, response, ReConfigResult::Performed);
        }
        ReConfigResult::Performed
    }

    /// §5.2.3.
    fn reset_outbound_for_peer(&mut self, request: u32, streams: StreamList<'_>) -> ReConfigResult {
        let outbound = self.streams.outbound;
        if streams.iter().any(|stream| stream.0 >= outbound) {
            return ReConfigResult::WrongStream;
        }
        let list: Vec<_> = streams.iter().collect();
        let (fresh, is_all) = self.sender.flight.begin_reset(&list);
        let wishes = &mut self.reconfiguration().wishes;
        wishes.resets.insert(fresh.into_iter(), is_all);
        wishes.answers = Some(request);
        ReConfigResult::Performed
    }

    /// §5.2.5. Streams that this side has asked for are not refused.
    fn add_inbound(&mut self, streams: u16, is_allowed: bool) -> ReConfigResult {
        let promised = self.reconfiguration().promised_streams;
        let limits = &self.context.config().limits;
        let affordable = limits.inbound_streams_affordable(self.context.config().interleaving);
        let streams_max = if promised >= streams { affordable } else { limits.inbound_streams.min(affordable) };
        let inbound = self.streams.inbound.checked_add(streams).filter(|&inbound| inbound <= streams_max);
        let (Some(inbound), Some(receiver), true) = (inbound, &mut self.receiver, is_allowed || promised >= streams)
        else {
            return ReConfigResult::Denied;
        };
        if streams == 0 {
            return ReConfigResult::NothingToDo;
        }
        receiver.set_streams(inbound);
        self.streams.inbound = inbound;
        self.reconfiguration().promised_streams = promised.saturating_sub(streams);
        let outbound_streams = self.streams.outbound;
        self.events.push_change(Event::StreamsAdded { outbound_streams, inbound_streams: inbound });
        ReConfigResult::Performed
    }

    /// §5.2.6. This side's own request follows.
    fn add_outbound_for_peer(&mut self, streams: u16, is_allowed: bool) -> ReConfigResult {
        let outbound = self.streams.outbound;
        let wishes = &mut self.reconfiguration().wishes;
        let wished = wishes.outbound.checked_add(streams).filter(|&wished| outbound.checked_add(wished).is_some());
        match wished.filter(|_| is_allowed) {
            None => ReConfigResult::Denied,
            Some(_) if streams == 0 => ReConfigResult::NothingToDo,
            Some(wished) => {
                wishes.outbound = wished;
                ReConfigResult::Performed
            }
        }
    }
}
