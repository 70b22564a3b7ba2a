package membership

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/internal/freeport"
)

var cluster = flag.Bool("cluster", false, "run the test with three servers too, which takes half a minute")

// serverVariable is the environment variable with the settings of a server process.
const serverVariable = "MILLRACE_TEST_SERVER"

type serverOrder struct {
	Name, Dir  string
	Port       int
	RoutePort  int
	RoutePorts []int
}

// serve runs a server of a cluster until it is killed.
func serve(text string) error {
	var o serverOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: o.Name, Host: "127.0.0.1", Port: o.Port, JetStream: true, StoreDir: o.Dir, NoLog: true, SyncAlways: true,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: o.RoutePort},
	}
	for _, p := range o.RoutePorts {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint("127.0.0.1:", p)})
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// startCluster starts a cluster of three server processes and returns their addresses and a
// function for each that kills it with SIGKILL.
func startCluster(t *testing.T) (urls []string, kill []func()) {
	t.Helper()
	addresses, err := freeport.Addresses(6)
	if err != nil {
		t.Fatal(err)
	}
	ports := make([]int, len(addresses))
	for i, at := range addresses {
		ports[i] = int(netip.MustParseAddrPort(at).Port())
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		text, err := json.Marshal(serverOrder{
			Name: fmt.Sprint("s", i), Dir: t.TempDir(), Port: ports[i], RoutePort: ports[3+i], RoutePorts: ports[3:],
		})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), serverVariable+"="+string(text))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // reports that it was killed
		})
		t.Cleanup(end)
		urls = append(urls, fmt.Sprint("nats://127.0.0.1:", ports[i]))
		kill = append(kill, end)
	}
	return urls, kill
}

// TestCluster joins one member through each of three servers and kills the server that leads
// the bucket. The election takes longer than a lease, so all leases end. Then all members
// return. Run it with
//
//	go test ./dataflow/durable/internal/membership -run TestCluster -cluster -v
func TestCluster(t *testing.T) {
	if !*cluster {
		t.Skip("needs -cluster")
	}
	urls, kill := startCluster(t)
	o := Options{Name: "app", Partitions: 32}
	var members []*Member
	var logs []*log
	for i := range 3 {
		// Each member tries the first address first and the others when that server is down.
		nc := connectLate(t, append(slices.Clone(urls[i:]), urls[:i]...))
		o.ID = fmt.Sprint("m", i)
		var m *Member
		until(t, "to join", func() bool { // waits for the first leader election
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			var err error
			m, err = Join(ctx, nc, o)
			return err == nil
		})
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = m.Leave(ctx)
		})
		members = append(members, m)
		logs = append(logs, follow(m))
	}
	agree(t, 32, members...)
	js, err := jetstream.New(members[0].nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(soon(t), "KV_MEMBERS_app")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
	leader, err := strconv.Atoi(strings.TrimPrefix(stream.CachedInfo().Cluster.Leader, "s"))
	if err != nil {
		t.Fatal(err)
	}
	before := members[(leader+1)%3].Counters().Renewals
	killed := time.Now()
	kill[leader]()
	until(t, "a renewal", func() bool { return members[(leader+1)%3].Counters().Renewals > before })
	t.Logf("killed s%d, which leads the bucket; renewed after %v", leader, time.Since(killed))
	agree(t, 32, members...)
	t.Logf("all agree after %v", time.Since(killed))
	for i, m := range members {
		logs[i].mu.Lock()
		for _, e := range logs[i].entries {
			t.Logf("%v %s owns %d", e.at.Sub(killed), m.ID(), len(e.owned))
		}
		logs[i].mu.Unlock()
		t.Logf("%s: %+v", m.ID(), m.Counters())
	}
	if err := members[0].Leave(soon(t)); err != nil {
		t.Error(err)
	}
	agree(t, 32, members[1:]...)
}

// connectLate connects as soon as a server accepts connections.
func connectLate(t *testing.T, urls []string) *nats.Conn {
	t.Helper()
	var nc *nats.Conn
	until(t, "a server", func() bool {
		var err error
		nc, err = nats.Connect(strings.Join(urls, ","), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
		return err == nil
	})
	t.Cleanup(nc.Close)
	return nc
}
