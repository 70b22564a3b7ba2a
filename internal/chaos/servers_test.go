package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Servers are nats-server processes on loopback ports, which sync always.
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

// startServers starts n servers, as a cluster if there are several, and waits until they
// can make streams.
func startServers(t testing.TB, n int) *servers {
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
		config := fmt.Sprintf("server_name: %s\nlisten: \"127.0.0.1:%d\"\njetstream { store_dir: %q, sync_interval: always }\n",
			nd.name, nd.port, filepath.Join(dir, "store"))
		if n > 1 { // who is cut off must not hear of ways around
			config += fmt.Sprintf("cluster { name: C, no_advertise: true, listen: \"127.0.0.1:%d\", routes: [%s] }\n", ports[n+i], strings.Join(routes, ", "))
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
	s.ready(n)
	return s
}

// ready waits until a stream can be made with as many replicas as there are servers.
func (s *servers) ready(replicas int) {
	s.t.Helper()
	eventually(s.t, func(ctx context.Context) error {
		nc, err := nats.Connect(strings.Join(s.urls(), ","))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "READY", Replicas: replicas}); err != nil {
			return err
		}
		return js.DeleteStream(ctx, "READY")
	})
}

func (s *servers) start(nd *node) {
	binary, err := serverBinary()
	if err != nil {
		s.t.Error(err)
		return
	}
	cmd := exec.Command(binary, "-c", nd.config, "-l", nd.config+".log")
	if err := cmd.Start(); err != nil {
		s.t.Error(err)
		return
	}
	nd.cmd = cmd
}

// kill ends a server as kill -9 does.
func (s *servers) kill(nd *node) {
	if nd.cmd != nil {
		nd.cmd.Process.Kill()
		nd.cmd.Wait()
		nd.cmd = nil
	}
}

// healthy waits until all replicas of all streams have everything.
func (s *servers) healthy() {
	s.t.Helper()
	eventually(s.t, func(ctx context.Context) error {
		nc, err := nats.Connect(strings.Join(s.urls(), ","))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		list, n := js.ListStreams(ctx), 0
		for info := range list.Info() {
			n++
			if info.Cluster == nil || info.Cluster.Leader == "" {
				return fmt.Errorf("%s has no leader", info.Config.Name)
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					return fmt.Errorf("a replica of %s is behind: %+v", info.Config.Name, r)
				}
			}
		}
		if n == 0 {
			return errors.Join(errors.New("no streams"), list.Err())
		}
		return list.Err()
	})
}

func (s *servers) urls() (all []string) {
	for _, nd := range s.nodes {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", nd.port))
	}
	return all
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
