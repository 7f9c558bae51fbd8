//! SFTP version 3, as OpenSSH has it (draft-ietf-secsh-filexfer-02 and PROTOCOL of OpenSSH).
//!
//! [`Session`] is one `sftp-server`: requests go in, replies come out in any order. A [`Pool`]
//! has several of them, each on a channel of its own, because a stock server takes no more than 2 MiB
//! per channel and round trip; it knows whose reply each one is and bounds the bytes under way
//! by what the path carries ([`Policy::Path`](manypath_window::Policy::Path)). [`Download`] and [`Upload`] say which
//! part of one file comes next.

mod attributes;
mod download;
mod pool;
mod reply;
mod request;
mod session;
mod upload;

pub use attributes::Attributes;
pub use download::Download;
pub use pool::{Answer, Pool};
pub use reply::{Name, Reply, Status};
pub use request::{OpenFlags, Request};
pub use session::{Session, SftpError};
pub use upload::Upload;
