//! What the sender's applications do.

use super::channel;
use super::error::ScenarioError;
use super::network::PathSpec;
use super::section::Section;
use super::setting::{Rate, Setting, one_of};
use super::stream_options;
use manypath_engine::{Duration, StreamOptions};
use manypath_window::WindowConfig;

/// One application and the streams that it uses.
#[derive(Clone, Debug)]
pub struct AppSpec {
    /// Its name, as results show it.
    pub name: String,
    /// What it does.
    pub kind: AppKind,
    /// First of its streams; applications get theirs one after the other.
    pub first_stream: u16,
    /// Number of its streams.
    pub streams: u16,
    /// What it says about each of its streams.
    pub stream_options: Vec<StreamOptions>,
    /// Bytes of a message.
    pub message: usize,
    /// When it begins, from the start of the association.
    pub start: Duration,
}

/// What an application does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppKind {
    /// Always has something to send, on every stream.
    Saturated {
        /// Whether it asks how much each stream holds in the send buffer (the sender queue
        /// information of the socket API) and gives each stream its share of the buffer. Without,
        /// all streams get the same number of messages.
        queue_info: bool,
    },
    /// Sends so many bytes, then is done.
    File {
        /// Bytes.
        bytes: u64,
    },
    /// Sends a request on each stream at a time and waits for the answer, thinks, goes on.
    RequestResponse {
        /// Bytes of the answer.
        response: usize,
        /// Pause after an answer.
        think: Duration,
    },
    /// Always has something to send on a channel with a window of its own, like those of SSH.
    Channel {
        /// What the receiver's window is like.
        window: WindowConfig,
        /// What the receiver's transport can hold, if its window is bound to that.
        socket_buffer: Option<u64>,
    },
    /// Connections through flows, as the live stack carries those of TCP programs: each of its streams is one, on
    /// which the sender writes without pause and the receiver reads at once.
    Connection {
        /// Bytes that each connection carries.
        bytes: u64,
        /// Whether the receiver opens the connections (a download), not the sender.
        download: bool,
    },
    /// Messages at a constant rate, with pauses.
    OnOff {
        /// Bit/s of messages while on, all streams together.
        rate_bps: u64,
        /// Time on.
        on: Duration,
        /// Time off; zero is a constant rate.
        off: Duration,
    },
}

impl AppKind {
    /// Whether the receiver sends messages of its own.
    pub(crate) fn is_answered(&self) -> bool {
        match self {
            Self::RequestResponse { .. } | Self::Channel { .. } => true,
            Self::Saturated { .. }
            | Self::File { .. }
            | Self::Connection { .. }
            | Self::OnOff { .. } => false,
        }
    }
}

impl AppSpec {
    pub(super) fn read(
        mut section: Section<'_>,
        first_stream: u16,
        paths: &[PathSpec],
    ) -> Result<Self, ScenarioError> {
        const KINDS: [(&str, u8); 6] = [
            ("saturated", 0),
            ("file", 1),
            ("request-response", 2),
            ("on-off", 3),
            ("channel", 4),
            ("connection", 5),
        ];
        let kind = section.read("kind", None, |node| one_of(node, &KINDS).map(Some))?;
        let kind = kind.ok_or_else(|| {
            section.error(
                "kind",
                "is missing; one of saturated, file, request-response, on-off, channel, connection",
            )
        })?;
        let name = section.value("name", KINDS[usize::from(kind)].0.to_owned())?;
        let streams = section.value("streams", 1_u16)?;
        let message = section.value("message", 1452_usize)?;
        let start = section.value("start", Duration::ZERO)?;
        if kind == 4 && streams != 1 {
            return Err(section.error("streams", "a channel has one stream"));
        }
        if streams == 0 || first_stream.checked_add(streams).is_none() {
            return Err(section.error("streams", "there are 1 to 65535 streams"));
        }
        if !(1..=1 << 20).contains(&message) {
            return Err(section.error("message", "a message has between 1 byte and 1 MiB"));
        }
        let stream_options = stream_options::read(&mut section, streams, paths)?;
        let kind = match kind {
            0 => AppKind::Saturated { queue_info: section.value("queue_info", false)? },
            1 => AppKind::File { bytes: section.required::<u64>("bytes")?.max(1) },
            2 => AppKind::RequestResponse {
                response: section.value("response", 1452_usize)?.clamp(1, 1 << 20),
                think: section.value("think", Duration::ZERO)?,
            },
            3 => read_on_off(&mut section)?,
            5 => AppKind::Connection {
                bytes: section.required::<u64>("bytes")?.max(1),
                download: section.value("download", false)?,
            },
            _ => channel::read(&mut section)?,
        };
        section.finish()?;
        Ok(Self { name, kind, first_stream, streams, stream_options, message, start })
    }

    /// Its parameters as columns of a result.
    pub(super) fn parameters(&self, paths: &[PathSpec], out: &mut Vec<(String, String)>) {
        let mut add =
            |key: &str, value: String| out.push((format!("app.{}.{key}", self.name), value));
        add("streams", self.streams.show());
        add("message", self.message.show());
        add("start", self.start.show());
        match self.kind {
            AppKind::Saturated { queue_info } => {
                add("kind", "saturated".into());
                add("queue_info", queue_info.show());
            }
            AppKind::File { bytes } => {
                add("kind", "file".into());
                add("bytes", bytes.show());
            }
            AppKind::RequestResponse { response, think } => {
                add("kind", "request-response".into());
                add("response", response.show());
                add("think", think.show());
            }
            AppKind::Channel { window, socket_buffer } => {
                add("kind", "channel".into());
                channel::parameters(window, socket_buffer, &mut add);
            }
            AppKind::Connection { bytes, download } => {
                add("kind", "connection".into());
                add("bytes", bytes.show());
                add("download", download.show());
            }
            AppKind::OnOff { rate_bps, on, off } => {
                add("kind", "on-off".into());
                add("rate", rate_bps.show());
                add("on", on.show());
                add("off", off.show());
            }
        }
        for (key, value) in stream_options::parameters(&self.stream_options, paths) {
            add(&format!("stream_options.{key}"), value);
        }
    }
}

fn read_on_off(section: &mut Section<'_>) -> Result<AppKind, ScenarioError> {
    let Rate(Some(rate_bps)) = section.required("rate")? else {
        return Err(section.error("rate", "an application that sends without limit is saturated"));
    };
    let on = section.value("on", Duration::from_secs(1))?;
    let off = section.value("off", Duration::ZERO)?;
    if on.is_zero() {
        return Err(section.error("on", "the time on is not zero"));
    }
    Ok(AppKind::OnOff { rate_bps, on, off })
}
