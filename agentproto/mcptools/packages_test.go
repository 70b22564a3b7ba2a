package mcptools

import (
	"strings"
	"testing"
)

// TestUnpinned tells commands that fetch the newest version of a package from those that name a version.
func TestUnpinned(t *testing.T) {
	for command, want := range map[string]string{
		"npx -y @scope/server": "@scope/server", "npx -y @scope/server@1.2.3": "", "npx server@latest stdio": "server@latest", "npx -y -p server@2 run": "", "npx --package=server run": "server",
		"/usr/bin/npx server": "server", "uvx mcp-server-git": "mcp-server-git", "uvx mcp-server-git==1.0": "", "uvx mcp-server-git@1.0 x": "", "uvx --from git-server==1 git": "", "uvx --python 3.12 git": "git",
		"pipx run server": "server", "pip install server==1": "", "pip list": "", "docker run -i --rm -v a:b registry:5000/server": "registry:5000/server", "docker run -i server:1.2": "",
		"docker run server:latest": "server:latest", "docker run -e A server@sha256:0a": "", "docker ps": "", "mcp-server-files /srv": "", "npx": "", "docker": "",
	} {
		if got := unpinned(strings.Fields(command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
