//! A saturated transfer from a client to a server, of which there may be several in one world.

use super::{PORT, address, joint, link, pair};
use manypath_engine::{AssociationId, Config, Event, Instant, Outgoing, Ppid, SendError, StreamId};
use manypath_sim::world::{HostId, LinkNumber, PathNumber};
use manypath_sim::{LinkConfig, World};

const MESSAGE: usize = 1444;

/// The transfer.
pub(crate) struct Flow {
    /// Client and server.
    pub(crate) hosts: [HostId; 2],
    /// The client's association.
    pub(crate) client: AssociationId,
    /// Its paths, in the order in which they were given.
    pub(crate) paths: Vec<PathNumber>,
    /// Payload that has arrived.
    pub(crate) received: usize,
    server: Option<AssociationId>,
}

impl Flow {
    /// Over paths with these numbers and links of their own, each through a bottleneck behind it or not.
    pub(crate) fn new(
        world: &mut World,
        ways: &[(u8, LinkConfig, Option<LinkNumber>)],
        config: &Config,
    ) -> Self {
        let hosts = pair(world, config);
        let mut paths = Vec::new();
        for (number, access, bottleneck) in ways {
            let path = world.join(&joint(hosts, *number, access.clone()));
            let own = world.link_of(path, hosts[1]);
            world.set_route(path, hosts[1], [own].into_iter().chain(*bottleneck).collect());
            world.set_link(path, hosts[0], link(1000, 5, 1000));
            paths.push(path);
        }
        let to = address(ways[0].0, 2);
        let client = world.endpoint(hosts[0]).connect(Instant::ZERO, to, PORT).unwrap();
        Self { hosts, client, paths, received: 0, server: None }
    }

    /// Sends all that fits and takes what has arrived.
    pub(crate) fn step(&mut self, world: &mut World) {
        self.send(world);
        for host in self.hosts {
            while let Some((id, event)) = world.endpoint(host).poll_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
                if host == self.hosts[1] {
                    self.server = Some(id);
                }
            }
        }
        let [_, server] = self.hosts;
        while let Some(message) = self.server.and_then(|id| world.endpoint(server).read(id)) {
            self.received += message.payload.len();
        }
    }

    fn send(&self, world: &mut World) {
        let now = world.now();
        while world.endpoint(self.hosts[0]).send_space(self.client) >= MESSAGE {
            let payload = vec![7; MESSAGE].into();
            let message =
                Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload };
            match world.endpoint(self.hosts[0]).send(now, self.client, message) {
                Ok(()) => {}
                Err(SendError::BufferFull) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}
