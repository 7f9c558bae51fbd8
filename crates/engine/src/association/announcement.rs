//! What an endpoint says about itself in its INIT or INIT ACK, and how the peer's is read.

use super::families::Families;
use crate::authentication::{MAX_HMAC_IDS, Offer, RANDOM_LEN};
use crate::config::{Config, EcnUse, MIN_A_RWND};
use crate::path::PathAddr;
use crate::path::pairing::{self, MAX_ADDRESSES};
use crate::protection::{Incompatible, KeyOffer, agree};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use manypath_wire::cause::{Cause, CauseWriter, ParameterTypes};
use manypath_wire::chunk::{Init, InitAck, types};
use manypath_wire::error::NoRoom;
use manypath_wire::parameter::types::PADDING;
use manypath_wire::parameter::{HmacIds, Parameter, ParameterWriter, Parameters};
use manypath_wire::{Tsn, VerificationTag};

/// Most entries of the peer's list of extensions that are kept.
pub(crate) const MAX_EXTENSIONS: usize = 32;
/// Most bytes of unrecognized parameters that are reported back, with their headers and padding.
const MAX_REPORT: usize = 160;
/// Most chunk types of a CHUNKS parameter (RFC 4895 section 3.2: "maximum length is 260 bytes").
const MAX_CHUNKS: usize = 256;
/// Header and padding of one reported parameter, at most.
const REPORT_OVERHEAD: usize = 7;

/// Longest Host Name Address parameter that is reported back.
pub(crate) const MAX_HOST_NAME: usize = 264;

/// Parameter type of Forward-TSN-Supported (RFC 3758 section 3.1).
const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
/// Parameter type of the State Cookie.
const TYPE_STATE_COOKIE: u16 = 7;
/// Type and length of a parameter.
const PARAMETER_HEADER: usize = 4;

/// The contents of an INIT or INIT ACK, without the cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    /// Initiate Tag.
    pub tag: VerificationTag,
    /// Advertised receiver window credit in bytes.
    pub a_rwnd: u32,
    /// Streams the sender wants to send on (OS).
    pub outbound_streams: u16,
    /// Streams the sender accepts (MIS).
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    /// Adaptation layer indication (RFC 5061 section 4.2.6).
    pub adaptation: Option<u32>,
    /// Supported extensions: chunk types (RFC 5061 section 4.2.7).
    pub extensions: Vec<u8>,
    /// ECN Capable (reserved by RFC 9260; RFC 4960 appendix A).
    pub ecn: bool,
    /// Listed addresses; none means the packet's source only.
    pub addresses: Vec<IpAddr>,
    /// RANDOM, CHUNKS and HMAC-ALGO (RFC 4895 section 3), if there are enough of them.
    pub auth: Option<Offer>,
    /// DTLS Key Management (draft-ietf-tsvwg-sctp-dtls-chunk section 4.1).
    pub keys: Option<KeyOffer>,
}

/// What of an INIT or INIT ACK was drawn at random, and stays the same when it is repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// Initiate Tag.
    pub tag: VerificationTag,
    /// TSN of the first DATA chunk.
    pub initial_tsn: Tsn,
    /// Authentication, if it is to be used.
    pub auth: Option<Offer>,
    /// Key management, if it is to be used.
    pub keys: Option<KeyOffer>,
}

/// An INIT or INIT ACK as it was understood.
#[derive(Clone, Debug)]
pub(crate) struct Received<'a> {
    /// Its contents.
    pub announcement: Announcement,
    /// The State Cookie, in an INIT ACK.
    pub cookie: Option<&'a [u8]>,
    /// The longer life that an INIT asks for its cookie.
    pub preservative: Duration,
    /// It has a Forward-TSN-Supported parameter.
    forward_tsn: bool,
    zero_checksum: bool,
    /// Resumption: the first one counts.
    ticket: Option<&'a [u8]>,
    /// RANDOM, CHUNKS and HMAC-ALGO. The first of each counts.
    random: Option<&'a [u8]>,
    chunks: Option<&'a [u8]>,
    hmac_ids: Option<HmacIds<'a>>,
    /// Parameters to be reported back, each with its header (RFC 9260 section 3.2.2).
    pub unrecognized: Vec<Vec<u8>>,
    /// Bytes of Padding parameters (RFC 4820 section 4).
    pub padding: usize,
}

/// Why an INIT or INIT ACK is answered by an ABORT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal<'a> {
    /// No streams, or too small a window.
    InvalidMandatoryParameter,
    /// A parameter with a length that it cannot have: nobody knows what it and the rest would say.
    MalformedParameter,
    /// A host name instead of an address (section 5.1.2 rule B).
    HostName(&'a [u8]),
    /// An INIT ACK without a cookie.
    NoCookie,
    /// No room for one more association.
    OutOfResource,
    /// Nobody accepts associations here.
    NotAccepting,
    /// The Random Number has another length than 32 bytes (RFC 4895 section 6.1).
    BadRandom,
    /// The peer cannot authenticate chunks although it has to.
    NoAuthentication,
    /// Nothing can be agreed on about key management although that is required.
    NoProtection(Incompatible),
}

/// Room for any refusal.
pub(crate) const MAX_REFUSAL: usize = 8 + MAX_HOST_NAME;

impl Refusal<'_> {
    /// The error causes of the ABORT.
    pub(crate) fn write(self, causes: &mut CauseWriter<'_>) -> Result<(), NoRoom> {
        match self {
            Self::InvalidMandatoryParameter => causes.push(&Cause::InvalidMandatoryParameter),
            Self::HostName(name) => push_host_name(name, causes),
            Self::NoCookie => {
                causes.push(&Cause::MissingMandatoryParameter(ParameterTypes::from_slice(&[
                    TYPE_STATE_COOKIE,
                ])))
            }
            Self::OutOfResource => causes.push(&Cause::OutOfResource),
            Self::NoProtection(why) => causes.push(&why.cause()),
            Self::NotAccepting => Ok(()),
            Self::MalformedParameter | Self::BadRandom | Self::NoAuthentication => {
                causes.push(&Cause::ProtocolViolation(self.text().as_bytes()))
            }
        }
    }

    /// The reason in words.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::InvalidMandatoryParameter => "INIT ACK without streams or with a_rwnd below 1500",
            Self::MalformedParameter => "parameter with an impossible length",
            Self::HostName(_) => "host name address in INIT ACK",
            Self::NoCookie => "INIT ACK without a cookie",
            Self::OutOfResource => "too many associations",
            Self::NotAccepting => "not accepting",
            Self::BadRandom => "Random Number of another length than 32 bytes",
            Self::NoAuthentication => "no authentication of chunks",
            Self::NoProtection(_) => "no DTLS chunks",
        }
    }
}

/// The cause holds the whole parameter (section 3.3.10.5). A name that is too long for that is left
/// out.
fn push_host_name(name: &[u8], causes: &mut CauseWriter<'_>) -> Result<(), NoRoom> {
    let mut buffer = [0; MAX_HOST_NAME];
    let mut parameter = ParameterWriter::new(&mut buffer);
    let _too_long = parameter.push(&Parameter::HostNameAddress(name)).is_err();
    let used = parameter.finish();
    causes.push(&Cause::UnresolvableAddress(&buffer[..used]))
}

impl<'a> Received<'a> {
    /// Reads an INIT that came over `path`.
    pub(crate) fn from_init(
        config: &Config,
        init: &Init<'a>,
        path: &PathAddr,
    ) -> Result<Self, Refusal<'a>> {
        let announcement = Announcement {
            tag: init.tag,
            a_rwnd: init.a_rwnd,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn,
            adaptation: None,
            extensions: Vec::new(),
            ecn: false,
            addresses: Vec::new(),
            auth: None,
            keys: None,
        };
        let mut received = Self {
            announcement,
            cookie: None,
            preservative: Duration::ZERO,
            forward_tsn: false,
            zero_checksum: false,
            ticket: None,
            random: None,
            chunks: None,
            hmac_ids: None,
            unrecognized: Vec::new(),
            padding: 0,
        };
        received.check_fixed()?;
        received.read(init.parameters, path)?;
        received.note_forward_tsn();
        received.check_keys(config)?;
        if config.authenticates() {
            received.note_authentication(config)?;
        }
        Ok(received)
    }

    /// Reads an INIT ACK that came over `path`.
    pub(crate) fn from_init_ack(
        config: &Config,
        ack: &InitAck<'a>,
        path: &PathAddr,
    ) -> Result<Self, Refusal<'a>> {
        let InitAck { tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters } =
            *ack;
        let init = Init { tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters };
        let received = Self::from_init(config, &init, path)?;
        // An empty one is odd, but it is there.
        if received.cookie.is_none() {
            return Err(Refusal::NoCookie);
        }
        Ok(received)
    }

    fn check_fixed(&self) -> Result<(), Refusal<'a>> {
        let Announcement { a_rwnd, outbound_streams, inbound_streams, .. } = self.announcement;
        if outbound_streams == 0 || inbound_streams == 0 || a_rwnd < MIN_A_RWND {
            return Err(Refusal::InvalidMandatoryParameter);
        }
        Ok(())
    }

    /// Reads the parameters up to one that orders to stop.
    fn read(&mut self, parameters: Parameters<'a>, path: &PathAddr) -> Result<(), Refusal<'a>> {
        for parameter in parameters.iter() {
            let Ok(parameter) = parameter else { return Err(Refusal::MalformedParameter) };
            match parameter {
                Parameter::Ipv4Address(v4) => self.add_address(v4.into(), path),
                Parameter::Ipv6Address(v6) => self.add_address(v6.into(), path),
                Parameter::StateCookie(cookie) => self.cookie = Some(cookie),
                Parameter::CookiePreservative(millis) => {
                    self.preservative = Duration::from_millis(millis.into());
                }
                Parameter::HostNameAddress(name) => return Err(Refusal::HostName(name)),
                Parameter::SupportedExtensions(types) => {
                    self.announcement.extensions =
                        types[..types.len().min(MAX_EXTENSIONS)].to_vec();
                }
                Parameter::EcnCapable => self.announcement.ecn = true,
                Parameter::ZeroChecksumAcceptable(method) => {
                    self.zero_checksum |= KeyOffer::is_error_detection(method);
                }
                Parameter::Resumption(ticket) => self.ticket = self.ticket.or(Some(ticket)),
                Parameter::ForwardTsnSupported => self.forward_tsn = true,
                Parameter::Random(random) => self.random = self.random.or(Some(random)),
                Parameter::Chunks(chunks) => self.chunks = self.chunks.or(Some(chunks)),
                Parameter::HmacAlgo(ids) => self.hmac_ids = self.hmac_ids.or(Some(ids)),
                Parameter::KeyManagement(keys) => {
                    self.announcement.keys = KeyOffer::received(&keys);
                }
                Parameter::AdaptationIndication(indication) => {
                    self.announcement.adaptation = Some(indication);
                }
                // A hint only (section 5.1.2); the others have no meaning here or are not used.
                Parameter::SupportedAddressTypes(_)
                | Parameter::HeartbeatInfo(_)
                | Parameter::UnrecognizedParameter(_) => {}
                // "A robust implementation SHOULD ignore the parameter" (RFC 5061 section 4.2).
                Parameter::AddIpAddress(_)
                | Parameter::DeleteIpAddress(_)
                | Parameter::ErrorIndication(_)
                | Parameter::SetPrimaryAddress(_)
                | Parameter::SuccessIndication(_) => {}
                // Known from RE-CONFIG; as in other types without the highest bit, nothing more is
                // read.
                Parameter::OutgoingSsnReset(_)
                | Parameter::IncomingSsnReset(_)
                | Parameter::SsnTsnReset { .. }
                | Parameter::ReConfigResponse(_)
                | Parameter::AddOutgoingStreams(_)
                | Parameter::AddIncomingStreams(_) => break,
                Parameter::Unknown(unknown) if unknown.parameter_type == PADDING => {
                    self.padding += unknown.raw().len().next_multiple_of(4);
                }
                Parameter::Unknown(unknown) => {
                    let action = unknown.action();
                    if action.report {
                        self.report(unknown.raw());
                    }
                    if action.stop {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Partial reliability that our INIT did not offer: RFC 3758 section 3.3.1: "It MUST instead act as
    /// if it does NOT support the FORWARD TSN chunk", so the parameter is one to be reported.
    pub(crate) fn report_unoffered(&mut self, config: &Config) {
        if self.forward_tsn && !config.partial_reliability {
            let [high, low] = FORWARD_TSN_SUPPORTED.to_be_bytes();
            self.report(&[high, low, 0, 4]);
        }
    }

    /// The parameter says the same as an entry in the list of extensions (RFC 3758 section 3.1).
    fn note_forward_tsn(&mut self) {
        let extensions = &mut self.announcement.extensions;
        if self.forward_tsn && !extensions.contains(&types::FORWARD_TSN) {
            extensions.truncate(MAX_EXTENSIONS - 1);
            extensions.push(types::FORWARD_TSN);
        }
    }

    /// Whether anything can be agreed on about key management, if that is required. Tie breakers are compared when
    /// ours is known.
    fn check_keys(&mut self, config: &Config) -> Result<(), Refusal<'a>> {
        let Some(wanted) = &config.key_management else {
            self.announcement.keys = None;
            return Ok(());
        };
        let offer = self.announcement.keys.iter_mut();
        offer.for_each(|keys| keys.note_beside(self.zero_checksum, self.ticket));
        let own = KeyOffer::with_tie_breaker(wanted, 0);
        match agree(Some(&own), self.announcement.keys.as_ref()) {
            Ok(_) | Err(Incompatible::TieBreakers) => Ok(()),
            Err(why) if wanted.required => Err(Refusal::NoProtection(why)),
            Err(_) => {
                self.announcement.keys = None;
                Ok(())
            }
        }
    }

    /// Takes over what the peer says about authentication, if it is of use.
    fn note_authentication(&mut self, config: &Config) -> Result<(), Refusal<'a>> {
        let random = self.random.map(<[u8; RANDOM_LEN]>::try_from);
        let random = random.transpose().map_err(|_| Refusal::BadRandom)?;
        let chunks = self.chunks.map(<[u8]>::to_vec);
        let offer = random.zip(self.hmac_ids).map(|(random, ids)| {
            let hmac_ids = ids.iter().take(MAX_HMAC_IDS + 1).collect();
            Offer { random, chunks, hmac_ids }
        });
        let usable = |offer: &Offer| {
            let chunks = offer.chunks.as_ref().map_or(0, Vec::len);
            let algorithms = offer.hmac_ids.len() <= MAX_HMAC_IDS;
            algorithms && chunks <= MAX_CHUNKS && offer.best_algorithm().is_some()
        };
        self.announcement.auth = offer.filter(usable);
        let wants_asconf = self.announcement.extensions.contains(&types::ASCONF);
        // RFC 5061 section 6: "under NO circumstance is an implementation allowed to proceed".
        let needed =
            config.require_authentication || (config.address_reconfiguration && wants_asconf);
        let protected = self.announcement.keys.is_some();
        if self.announcement.auth.is_none() && needed && !protected {
            return Err(Refusal::NoAuthentication);
        }
        Ok(())
    }

    fn add_address(&mut self, address: IpAddr, path: &PathAddr) {
        let list = &mut self.announcement.addresses;
        let wanted = pairing::acceptable(path, address) && !list.contains(&address);
        if wanted && list.len() < MAX_ADDRESSES {
            list.push(address);
        }
    }

    fn report(&mut self, raw: &[u8]) {
        let cost = |raw: &[u8]| raw.len() + REPORT_OVERHEAD;
        let reported: usize = self.unrecognized.iter().map(|raw| cost(raw)).sum();
        if reported + cost(raw) <= MAX_REPORT {
            self.unrecognized.push(raw.to_vec());
        }
    }
}

impl Announcement {
    /// What we say to a peer that is told `addresses`.
    pub(crate) fn own(
        config: &Config,
        Identity { tag, initial_tsn, auth, keys }: Identity,
        addresses: Vec<IpAddr>,
    ) -> Self {
        Self {
            tag,
            a_rwnd: config.receive_buffer,
            outbound_streams: config.streams,
            inbound_streams: config.max_inbound_streams(),
            initial_tsn,
            adaptation: config.adaptation,
            extensions: extensions(config),
            ecn: config.ecn != EcnUse::Off,
            addresses,
            auth,
            keys,
        }
    }

    /// The peer cannot authenticate chunks, so nothing is to be said of that and of what needs it.
    pub(crate) fn leave_authentication_out(&mut self) {
        const NEEDS: [u8; 3] = [types::AUTH, types::ASCONF, types::ASCONF_ACK];
        self.auth = None;
        self.extensions.retain(|extension| !NEEDS.contains(extension));
    }

    /// Packets will be protected: nothing is to be said of AUTH, and changes of addresses do not need it (draft
    /// section 3.2).
    pub(crate) fn leave_auth_out(&mut self) {
        self.auth = None;
        self.extensions.retain(|extension| *extension != types::AUTH);
    }

    /// For an INIT ACK that has to be small: leaves out which extensions the peer does not have, and what it
    /// says nothing of itself.
    pub(crate) fn keep_common(&mut self, peer: &Self) {
        self.extensions.retain(|extension| peer.extensions.contains(extension));
        self.adaptation = self.adaptation.filter(|_| peer.adaptation.is_some());
    }

    /// Lists only as many addresses as there is room for in an INIT ACK, whose parameters go into `buffer`.
    pub(crate) fn list_fewer(
        &mut self,
        buffer: &mut [u8],
        cookie: &[u8],
        unrecognized: &[Vec<u8>],
    ) {
        while self.to_init_ack(cookie, unrecognized, buffer).is_err()
            && self.addresses.pop().is_some()
        {}
        // Alone it says no more than the source of the packet.
        if self.addresses.len() == 1 {
            self.addresses.clear();
        }
    }

    /// The INIT with this content, padded to parameters of `least` bytes (RFC 4820). `buffer` holds them.
    pub(crate) fn to_init<'b>(
        &self,
        families: Families,
        least: usize,
        buffer: &'b mut [u8],
    ) -> Result<Init<'b>, NoRoom> {
        let mut parameters = ParameterWriter::new(buffer);
        self.push_parameters(&mut parameters)?;
        families.push(&mut parameters)?;
        let used = parameters.finish();
        let used = pad(buffer, used, least);
        Ok(Init {
            tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            initial_tsn: self.initial_tsn,
            parameters: Parameters::from_bytes(&buffer[..used]),
        })
    }

    /// The INIT ACK with this content. `buffer` holds its parameters.
    pub(crate) fn to_init_ack<'b>(
        &self,
        cookie: &[u8],
        unrecognized: &[Vec<u8>],
        buffer: &'b mut [u8],
    ) -> Result<InitAck<'b>, NoRoom> {
        let mut parameters = ParameterWriter::new(buffer);
        parameters.push(&Parameter::StateCookie(cookie))?;
        self.push_parameters(&mut parameters)?;
        for raw in unrecognized {
            parameters.push(&Parameter::UnrecognizedParameter(raw))?;
        }
        let used = parameters.finish();
        Ok(InitAck {
            tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            initial_tsn: self.initial_tsn,
            parameters: Parameters::from_bytes(&buffer[..used]),
        })
    }

    fn push_parameters(&self, parameters: &mut ParameterWriter<'_>) -> Result<(), NoRoom> {
        for address in &self.addresses {
            parameters.push(&address_parameter(*address))?;
        }
        if !self.extensions.is_empty() {
            parameters.push(&Parameter::SupportedExtensions(&self.extensions))?;
        }
        if self.extensions.contains(&types::FORWARD_TSN) {
            parameters.push(&Parameter::ForwardTsnSupported)?;
        }
        if self.ecn {
            parameters.push(&Parameter::EcnCapable)?;
        }
        if let Some(offer) = &self.auth {
            offer.push(parameters)?;
        }
        if let Some(offer) = &self.keys {
            offer.push(parameters)?;
        }
        match self.adaptation {
            Some(indication) => parameters.push(&Parameter::AdaptationIndication(indication)),
            None => Ok(()),
        }
    }
}

/// Appends a Padding parameter to the `used` bytes of parameters in `buffer`, so that there are `least`, if there
/// is room for one. Returns how many there are.
fn pad(buffer: &mut [u8], used: usize, least: usize) -> usize {
    let used = used.next_multiple_of(4);
    let Some(padding) = buffer.get_mut(used..least).filter(|it| it.len() >= PARAMETER_HEADER)
    else {
        return used;
    };
    padding.fill(0);
    let len = u16::try_from(padding.len()).unwrap_or(u16::MAX).to_be_bytes();
    let kind = PADDING.to_be_bytes();
    padding[..PARAMETER_HEADER].copy_from_slice(&[kind[0], kind[1], len[0], len[1]]);
    least
}

/// Chunk types beyond RFC 9260 that this endpoint understands (RFC 5061 section 4.2.7).
fn extensions(config: &Config) -> Vec<u8> {
    let mut list: Vec<u8> = config.nr_sack.extension().into_iter().collect();
    if config.authenticates() {
        list.push(types::AUTH);
    }
    if config.address_reconfiguration {
        list.extend([types::ASCONF, types::ASCONF_ACK]);
    }
    if config.reconfiguration {
        list.push(types::RE_CONFIG);
    }
    if config.partial_reliability {
        list.push(types::FORWARD_TSN);
    }
    if config.interleaving {
        list.push(types::I_DATA);
        list.extend(config.partial_reliability.then_some(types::I_FORWARD_TSN));
    }
    list
}

/// Whether both ends may add and remove addresses (RFC 5061 section 4.2.7).
pub(crate) fn may_change_addresses(config: &Config, peer: &Announcement) -> bool {
    let known = [types::ASCONF, types::ASCONF_ACK].iter().all(|it| peer.extensions.contains(it));
    config.address_reconfiguration && known
}

/// Whether both ends may give up messages of which a part was sent (RFC 3758 section 3.3). With
/// I-DATA that needs I-FORWARD-TSN (RFC 8260 section 2.3.1).
pub(crate) fn is_partially_reliable(config: &Config, peer: &Announcement) -> bool {
    let needed =
        if is_interleaving(config, peer) { types::I_FORWARD_TSN } else { types::FORWARD_TSN };
    config.partial_reliability && peer.extensions.contains(&needed)
}

/// Whether both ends use I-DATA (RFC 8260 section 2.2.1).
pub(crate) fn is_interleaving(config: &Config, peer: &Announcement) -> bool {
    config.interleaving && peer.extensions.contains(&types::I_DATA)
}

/// The parameter that lists `address`.
pub(crate) fn address_parameter(address: IpAddr) -> Parameter<'static> {
    match address {
        IpAddr::V4(v4) => Parameter::Ipv4Address(v4),
        IpAddr::V6(v6) => Parameter::Ipv6Address(v6),
    }
}
