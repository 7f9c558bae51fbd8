//! A folder that programs of other users can use: servers give up the rights that they begin with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// It goes with its test, unless that has failed.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("manypath-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("open to all");
        Self(path)
    }

    /// Writes a file; returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).expect("a file");
        self.at(name)
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn text(&self) -> String {
        self.0.display().to_string()
    }

    /// The configuration of an nginx with two workers at port 8080, which serves and logs here.
    pub(crate) fn nginx(&self) -> String {
        let d = self.text();
        self.file(
            "conf",
            format!(
                "daemon off;\nworker_processes 2;\npid {d}/pid;\nerror_log {d}/error.log;\n\
                 events {{}}\nhttp {{\nlog_format own '$remote_addr $request';\n\
                 access_log {d}/access.log own;\nclient_body_temp_path {d}/b;\n\
                 proxy_temp_path {d}/p;\nfastcgi_temp_path {d}/f;\nuwsgi_temp_path {d}/u;\n\
                 scgi_temp_path {d}/s;\nserver {{ listen 0.0.0.0:8080; root {d}; }}\n}}\n"
            ),
        )
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
