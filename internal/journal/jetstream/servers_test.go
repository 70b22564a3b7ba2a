package jetstream_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	jsapi "github.com/nats-io/nats.go/jetstream"
)

// Servers are nats-server processes on loopback ports.
type servers struct {
	t     testing.TB
	nodes []*node
}

type node struct {
	name   string
	port   int
	config string
	cmd    *exec.Cmd // nil while it is down
}

// startServers starts n servers, as a cluster if there are several.
func startServers(t testing.TB, n int, sync string) *servers {
	t.Helper()
	if _, err := serverBinary(); err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 2*n)
	var routes []string
	for _, port := range ports[n:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	s := &servers{t: t}
	for i := range n {
		dir := t.TempDir()
		nd := &node{name: fmt.Sprintf("n%d", i), port: ports[i], config: filepath.Join(dir, "server.conf")}
		config := fmt.Sprintf(`
server_name: %s
listen: "127.0.0.1:%d"
jetstream { store_dir: %q, %s }
accounts {
  APP { jetstream: enabled, users: [{user: app, password: app}] }
  SYS { users: [{user: sys, password: sys}] }
}
system_account: SYS
`, nd.name, nd.port, filepath.Join(dir, "store"), sync)
		if n > 1 {
			config += fmt.Sprintf("cluster { name: C, listen: \"127.0.0.1:%d\", routes: [%s] }\n", ports[n+i], strings.Join(routes, ", "))
		}
		if err := os.WriteFile(nd.config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		s.nodes = append(s.nodes, nd)
		s.start(nd)
	}
	t.Cleanup(func() {
		for _, nd := range s.nodes {
			s.kill(nd)
		}
	})
	return s
}

func (s *servers) start(nd *node) {
	binary, err := serverBinary()
	if err != nil {
		s.t.Fatal(err)
	}
	nd.cmd = exec.Command(binary, "-c", nd.config, "-l", nd.config+".log")
	if err := nd.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends a server as kill -9 does.
func (s *servers) kill(nd *node) {
	if nd.cmd != nil {
		nd.cmd.Process.Kill()
		nd.cmd.Wait()
		nd.cmd = nil
	}
}

// urls are the addresses for a user.
func (s *servers) urls(user string) (all []string) {
	for _, nd := range s.nodes {
		all = append(all, fmt.Sprintf("nats://%s:%s@127.0.0.1:%d", user, user, nd.port))
	}
	return all
}

// leader returns the server that leads a stream.
func (s *servers) leader(t testing.TB, nc *nats.Conn, stream string) *node {
	js, err := jsapi.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var leads *node
	eventually(t, func(ctx context.Context) error {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		name := st.CachedInfo().Cluster.Leader
		i := slices.IndexFunc(s.nodes, func(nd *node) bool { return nd.name == name })
		if i < 0 {
			return fmt.Errorf("%s is led by %q", stream, name)
		}
		leads = s.nodes[i]
		return nil
	})
	return leads
}

// healthy waits until all replicas of a stream have everything.
func (s *servers) healthy(t testing.TB, nc *nats.Conn, stream string) {
	js, err := jsapi.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		for _, r := range st.CachedInfo().Cluster.Replicas {
			if !r.Current || r.Offline {
				return fmt.Errorf("a replica of %s is behind: %+v", stream, r)
			}
		}
		return nil
	})
}

// eventually asks real servers again and again until they are as they should be.
func eventually(t testing.TB, do func(context.Context) error) {
	t.Helper()
	ctx := soon(t)
	var last error
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second) // a server that died does not answer
		err := do(attempt)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(last)
		}
	}
}

// freePorts returns ports that nobody listened on a moment ago.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all at the end, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
