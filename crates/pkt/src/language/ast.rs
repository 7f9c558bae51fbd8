//! A script as data.

use manypath_engine::Ecn;
use std::net::IpAddr;
use std::time::Duration;

/// A whole script.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Script {
    /// `--name=value` lines at the beginning.
    pub options: Vec<(String, Option<String>)>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// One thing that happens.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    /// Line of its time stamp.
    pub line: usize,
    /// When.
    pub when: When,
    /// What.
    pub action: Action,
}

/// A time stamp.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum When {
    /// Since the beginning of the script.
    At(Duration),
    /// Since the event before.
    After(Duration),
    /// `*`: at any time.
    Any,
    /// Between two points since the beginning.
    Between(Duration, Duration),
    /// Between two points since the event before.
    AfterBetween(Duration, Duration),
}

/// What an event does.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    /// `<` or `>`.
    Packet(Packet),
    /// A call of the socket API.
    Call(Call),
    /// A command in back quotes.
    Command(String),
    /// A code block, which needs an interpreter.
    Code,
}

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// To the stack.
    Inbound,
    /// From the stack.
    Outbound,
}

/// A packet that is injected or expected.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packet {
    /// Which way.
    pub direction: Direction,
    /// What is said of its ECN bits.
    pub ecn: Option<EcnBits>,
    /// Ports of UDP encapsulation: from and to.
    pub udp: Option<(u16, u16)>,
    /// Addresses that the packet comes from and goes to, where they are not those of the script.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// What it carries.
    pub body: Body,
}

/// The ECN field of the IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EcnBits {
    /// `noecn`, `ect0`, `ect1` or `ce`.
    Exactly(Ecn),
    /// `ect01`: one of the two that say that the transport is capable.
    Capable,
}

/// What a packet carries.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Body {
    /// SCTP chunks.
    Chunks(Header, Vec<Item>),
    /// Everything after the common header, byte by byte.
    Bytes(Header, Vec<u8>),
    /// ICMP about a packet of ours.
    Icmp(Icmp),
}

/// What is said about the common header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header {
    /// The verification tag.
    pub tag: Option<u32>,
    /// Whether the checksum is wrong.
    pub bad_checksum: bool,
    /// Whether the checksum is zero (RFC 9653).
    pub zero_checksum: bool,
}

/// An ICMP message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Icmp {
    /// Type, such as `unreachable` or `packet_too_big`.
    pub kind: String,
    /// Code, such as `frag_needed`.
    pub code: Option<String>,
    /// The next hop's MTU.
    pub mtu: Option<u16>,
}

/// A chunk, parameter or cause: `NAME[...]`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Item {
    /// Its name.
    pub name: String,
    /// What stands in the brackets.
    pub args: Vec<Arg>,
}

/// One thing in the brackets of an item, or in the braces of a structure.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Arg {
    /// `key=value`, or `key(...)=value`.
    Named(String, Value),
    /// A value alone; `...` among them.
    Bare(Value),
}

/// A value of any kind.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// `...`.
    Any,
    /// A number.
    Int(i64),
    /// A name.
    Word(String),
    /// Text in double quotes.
    Text(String),
    /// An address.
    Ip(IpAddr),
    /// `a:b`.
    Pair(i64, i64),
    /// `a | b`.
    Or(Vec<Self>),
    /// `[a, b]`.
    List(Vec<Self>),
    /// `{a=b, ...}`.
    Struct(Vec<Arg>),
    /// `name(a, b)`, such as `htonl(1)`.
    Call(String, Vec<Self>),
    /// `NAME[...]`.
    Item(Item),
}

/// A call of the socket API and what it must return.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    /// Name of the function.
    pub name: String,
    /// Its arguments, those that it fills in among them.
    pub args: Vec<Value>,
    /// What it returns.
    pub result: Value,
    /// The errno if it fails.
    pub errno: Option<String>,
    /// When a call that blocks returns, on the time line of its beginning.
    pub end: Option<Duration>,
}

impl Item {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        get(&self.args, key)
    }

    /// The items in the brackets, without their keys.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Self> {
        self.args.iter().filter_map(|arg| match arg {
            Arg::Bare(Value::Item(item)) => Some(item),
            Arg::Bare(_) | Arg::Named(..) => None,
        })
    }

    /// Whether `...` stands for the rest.
    pub(crate) fn is_open(&self) -> bool {
        self.args.contains(&Arg::Bare(Value::Any))
    }
}

/// The value of `key` among `args`.
pub(crate) fn get<'a>(args: &'a [Arg], key: &str) -> Option<&'a Value> {
    args.iter().find_map(|arg| match arg {
        Arg::Named(name, value) if name == key => Some(value),
        Arg::Named(..) | Arg::Bare(_) => None,
    })
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("..."),
            Self::Int(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Ip(address) => write!(f, "{address}"),
            Self::Pair(from, to) => write!(f, "{from}:{to}"),
            Self::Or(parts) => joined(f, ("", "|", ""), parts),
            Self::List(list) => joined(f, ("[", ", ", "]"), list),
            Self::Struct(args) => joined(f, ("{", ", ", "}"), args),
            Self::Call(name, args) => joined(f, (&format!("{name}("), ", ", ")"), args),
            Self::Item(item) => joined(f, (&format!("{}[", item.name), ", ", "]"), &item.args),
        }
    }
}

impl std::fmt::Display for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(key, value) => write!(f, "{key}={value}"),
            Self::Bare(value) => write!(f, "{value}"),
        }
    }
}

fn joined<T: std::fmt::Display>(
    f: &mut std::fmt::Formatter<'_>,
    (open, between, close): (&str, &str, &str),
    parts: &[T],
) -> std::fmt::Result {
    f.write_str(open)?;
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { between })?;
        write!(f, "{part}")?;
    }
    f.write_str(close)
}
