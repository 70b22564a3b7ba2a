// Package natstest runs real nats-server processes for tests: alone or as a cluster, on
// loopback ports. They can be killed as by kill -9 and restarted on the same files.
package natstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/overlap"
)

// Servers are nats-server processes.
type Servers struct {
	Nodes []*Node
	t     testing.TB
}

// A Node is one of the servers, which may be down.
type Node struct {
	Name    string
	Address string // for clients

	config string
	cmd    *exec.Cmd // nil while it is down
}

// Config is the configuration of the servers besides their names and addresses, in the
// language of their configuration files.
type Config struct {
	JetStream string // content of the section of that name, besides the folder
	Cluster   string // content of the section of that name
	Top       string // outside any section
}

// Start starts n servers, as a cluster if n > 1. It does not wait until they are ready.
// They end with the test.
func Start(t testing.TB, n int, c Config) *Servers {
	t.Helper()
	if _, err := binary(); err != nil {
		t.Fatal(err)
	}
	addresses, err := freeport.Addresses(2 * n) // a killed server needs its own again
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, at := range addresses[n:] {
		routes = append(routes, "nats://"+at)
	}
	s := &Servers{t: t}
	for i := range n {
		dir := t.TempDir()
		nd := &Node{Name: fmt.Sprintf("n%d", i), Address: addresses[i], config: filepath.Join(dir, "server.conf")}
		text := fmt.Sprintf("server_name: %s\nlisten: %q\njetstream { store_dir: %q\n%s }\n%s\n",
			nd.Name, nd.Address, filepath.Join(dir, "store"), c.JetStream, c.Top)
		if n > 1 {
			text += fmt.Sprintf("cluster { name: C, listen: %q, routes: [%s]\n%s }\n", addresses[n+i], strings.Join(routes, ", "), c.Cluster)
		}
		if err := os.WriteFile(nd.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Nodes = append(s.Nodes, nd)
		s.Start(nd)
	}
	t.Cleanup(func() {
		for _, nd := range s.Nodes {
			s.Kill(nd)
		}
	})
	return s
}

// Start starts a server that is down, with its files.
func (s *Servers) Start(nd *Node) {
	name, err := binary()
	if err != nil {
		s.t.Error(err)
		return
	}
	cmd := exec.Command(name, "-c", nd.config, "-l", nd.config+".log")
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	nd.cmd = cmd
}

// Kill kills a server as kill -9 does, if it is up.
func (s *Servers) Kill(nd *Node) {
	if nd.cmd != nil {
		nd.cmd.Process.Kill()
		nd.cmd.Wait()
		nd.cmd = nil
	}
}

// KillAll kills all servers at the same moment, like a power failure, except that the
// operating system still writes what it has buffered.
func (s *Servers) KillAll() {
	for _, nd := range s.Nodes {
		if nd.Up() {
			nd.cmd.Process.Kill()
		}
	}
	for _, nd := range s.Nodes {
		s.Kill(nd)
	}
}

// Up reports whether a server was started and not killed.
func (nd *Node) Up() bool { return nd.cmd != nil }

// URLs returns the addresses of the servers for a user and password, such as "app:app".
// With "" they contain no user.
func (s *Servers) URLs(user string) (all []string) {
	if user != "" {
		user += "@"
	}
	for _, nd := range s.Nodes {
		all = append(all, "nats://"+user+nd.Address)
	}
	return all
}

// Main runs the tests of a package and removes what was built for them. It is for
// TestMain, which passes the result to os.Exit.
func Main(m *testing.M) int {
	defer func() {
		if dir, err := workshop(); err == nil {
			os.RemoveAll(dir)
		}
	}()
	overlap.Tests()
	return m.Run()
}

// workshop returns a temporary folder for the run of the test binary.
var workshop = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "natstest") })

// binary builds nats-server from the module's dependency, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "nats-server")
	if out, err := exec.Command("go", "build", "-o", name, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})
