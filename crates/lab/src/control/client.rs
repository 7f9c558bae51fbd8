use super::socket_path;
use crate::error::LabError;
use crate::host::{Host, Namespaces};
use crate::messages::{Hello, Request, Response, VERSION};
use crate::sys::fd_passing;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A connection to a lab that another process holds.
pub(crate) struct Client {
    name: String,
    stream: Mutex<BufReader<UnixStream>>,
    namespaces: [Namespaces; 2],
    paths: usize,
}

impl Client {
    const PATIENCE: Duration = Duration::from_secs(10);

    pub(crate) fn connect(name: &str) -> Result<Self, LabError> {
        let stream = UnixStream::connect(socket_path(name)?).map_err(|error| {
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
                return LabError::NotRunning(name.to_owned());
            }
            LabError::Io { what: format!("cannot reach the lab '{name}'"), source: error }
        })?;
        let what = || format!("talking to the lab '{name}'");
        stream.set_read_timeout(Some(Self::PATIENCE)).map_err(LabError::io(what()))?;
        let mut bytes = [0; 256];
        let (len, mut fds) =
            fd_passing::receive(stream.as_fd(), &mut bytes).map_err(LabError::io(what()))?;
        let hello: Hello = serde_json::from_slice(&bytes[..len]).map_err(|_| {
            LabError::Refused(format!("the lab '{name}' does not speak our language"))
        })?;
        if hello.version != VERSION {
            return Err(LabError::Refused(format!(
                "the lab '{name}' was started by another version of manypath: end it with that one"
            )));
        }
        let right = fds.split_off(Namespaces::fd_count(hello.user_namespace).min(fds.len()));
        let namespaces = [
            Namespaces::from_fds(fds, hello.user_namespace)?,
            Namespaces::from_fds(right, hello.user_namespace)?,
        ];
        let stream = Mutex::new(BufReader::new(stream));
        Ok(Self { name: name.to_owned(), stream, namespaces, paths: hello.paths })
    }

    pub(crate) fn namespaces(&self, host: Host) -> &Namespaces {
        &self.namespaces[host.index()]
    }

    pub(crate) fn path_count(&self) -> usize {
        self.paths
    }

    pub(crate) fn call(&self, request: &Request) -> Result<Response, LabError> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let failed =
            |source| LabError::Io { what: format!("talking to the lab '{}'", self.name), source };
        let mut line = serde_json::to_string(request).map_err(|error| failed(error.into()))?;
        line.push('\n');
        stream.get_mut().write_all(line.as_bytes()).map_err(failed)?;
        line.clear();
        stream.read_line(&mut line).map_err(failed)?;
        match serde_json::from_str(&line).map_err(|error| failed(error.into()))? {
            Response::Refused(reason) => Err(LabError::Refused(reason)),
            answer @ (Response::Done
            | Response::Status(_)
            | Response::Samples(_)
            | Response::Elapsed(_)
            | Response::Captured(_)) => Ok(answer),
        }
    }

    /// Waits until the holder has gone.
    pub(crate) fn wait_for_end(&self) -> Result<(), LabError> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let what = format!("waiting for the end of the lab '{}'", self.name);
        match stream.read(&mut [0; 64]) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            Err(source) => Err(LabError::Io { what, source }),
        }
    }
}
