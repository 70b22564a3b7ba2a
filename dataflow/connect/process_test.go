//go:build unix

package connect_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/internal/overlap"
	"github.com/millrace/millrace/keyedstream"
)

// This file runs a source and a sink in processes that share a flow, and kills and stops the processes at random.

var kills = flag.Int("connect.kills", long.Of(3, 6), "how often a process is killed or stopped")

func TestMain(m *testing.M) {
	if url := os.Getenv("CONNECT_MEMBER"); url != "" {
		if err := member(url, os.Getenv("CONNECT_NATS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	overlap.Tests()
	os.Exit(m.Run())
}

const (
	countedSplits = 5
	countedEach   = 4000
	countedKeys   = 97
)

// A counter is a source whose splits have the numbers 1 to countedEach, under keys that repeat in turn.
type counter struct{}

func (c counter) Splits(context.Context) (all []connect.Split, err error) {
	for i := range countedSplits {
		all = append(all, connect.Split{ID: fmt.Sprint("counter/", i)})
	}
	return all, nil
}

func (c counter) Open(_ context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[string, int], error) {
	return &counting{c, s, int(after.Major)}, nil
}

func (c counter) Close() error { return nil }

type counting struct {
	counter
	split connect.Split
	last  int
}

func (c *counting) Next(ctx context.Context, b *connect.Batch[string, int]) error {
	if c.last == countedEach {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	// Some batches take long, so that readers of one split are at different positions.
	if rand.IntN(20) == 0 {
		select {
		case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for range 1 + rand.IntN(30) {
		if c.last == countedEach {
			break
		}
		c.last++
		b.Add(fmt.Sprintf("%s/%d", c.split.ID, c.last%countedKeys), c.last, dataflow.Position{Major: uint64(c.last)})
	}
	return nil
}

func (c *counting) Confirm(context.Context, dataflow.Position) error { return nil }
func (c *counting) Close() error                                     { return nil }

// member is a process that reads the source and writes to the server.
func member(url, nats string) error {
	ctx := context.Background()
	type ports struct {
		in  *connect.Port[string, int, dataflow.TotalOrder, dataflow.ExactlyOnce]
		out *dataflow.OutputPort[dataflow.Entry[string, int]]
	}
	app, err := durable.Start(ctx, func(f *dataflow.Flow) ports {
		in, counted := connect.Input[string, int](dataflow.At[shards](f), "counted")
		return ports{in, keyedstream.Output(counted, "out")}
	}, durable.Options{
		Log: natslog.Servers(natslog.Options{URLs: []string{nats}, Replicas: 1, AssumeDurable: true}), Name: "counted", Partitions: 4,
	})
	if err != nil {
		return err
	}
	fail := func(s any, err error) { fmt.Fprintln(os.Stderr, s, err) }
	pumps, err := connect.Attach(ctx, app, connect.ByKey(counter{}, "a key is made of its split"), app.Ports.in, connect.Options{
		Floor: 50 * time.Millisecond, OnError: func(s connect.Split, err error) { fail(s, err) },
	})
	if err != nil {
		return err
	}
	drains := connect.Drain(ctx, app, app.Ports.out, remoteTable{url}, connect.DrainOptions{
		Flow: "counted", Output: "out", Most: 100, OnError: func(l connect.Lane, err error) { fail(l, err) },
	})
	go func() { // the process ends with its parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("started")
	select {
	case <-app.Done():
		return app.Err()
	case <-pumps.Done():
		return errors.Join(errors.New("the pumps have ended"), pumps.Err())
	case <-drains.Done():
		return errors.Join(errors.New("the drains have ended"), drains.Err())
	}
}

// A remoteTable is a table at a server.
type remoteTable struct{ url string }

type remoteWriter struct {
	remoteTable
	lane  connect.Lane
	epoch int
}

func (r remoteTable) ask(ctx context.Context, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return connect.Retry(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return connect.Retry(json.NewDecoder(resp.Body).Decode(answer))
	case http.StatusConflict:
		return connect.ErrFenced
	}
	text, _ := io.ReadAll(resp.Body)
	return fmt.Errorf("%s: %s", resp.Status, text)
}

func (r remoteTable) Open(ctx context.Context, l connect.Lane) (connect.Writer[dataflow.Entry[string, int], connect.Atomic], uint64, error) {
	var opened struct {
		Epoch int
		Last  uint64
	}
	err := r.ask(ctx, "/open", l, &opened)
	return &remoteWriter{r, l, opened.Epoch}, opened.Last, err
}

type remoteWrite struct {
	Lane  connect.Lane
	Epoch int
	First uint64
	Rows  []dataflow.Entry[string, int]
}

func (w *remoteWriter) Write(ctx context.Context, first uint64, xs []dataflow.Entry[string, int]) (connect.Atomic, error) {
	return connect.Atomic{}, w.ask(ctx, "/write", remoteWrite{w.lane, w.epoch, first, xs}, new(struct{}))
}

func (w *remoteWriter) Close() error { return nil }

// A tableServer stores what is written.
type tableServer struct {
	mu    sync.Mutex
	lanes map[string]*tableLane
	rows  map[string][]int // by key
	n     int
	wrong []string
}

func (s *tableServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lane := func(l connect.Lane) *tableLane {
		at := s.lanes[l.String()]
		if at == nil {
			at = &tableLane{}
			s.lanes[l.String()] = at
		}
		return at
	}
	if r.URL.Path == "/open" {
		var l connect.Lane
		if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		at := lane(l)
		at.epoch++
		_ = json.NewEncoder(w).Encode(map[string]any{"Epoch": at.epoch, "Last": at.last})
		return
	}
	var x remoteWrite
	if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := lane(x.Lane)
	if x.Epoch != at.epoch {
		http.Error(w, "fenced", http.StatusConflict)
		return
	}
	if x.First != at.last+1 {
		s.wrong = append(s.wrong, fmt.Sprintf("lane %s: %d comes behind %d", x.Lane, x.First, at.last))
	}
	at.last += uint64(len(x.Rows))
	for _, e := range x.Rows {
		s.rows[e.Key] = append(s.rows[e.Key], e.Value)
		s.n++
	}
	_, _ = w.Write([]byte("{}"))
}

// A process is a running member.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
}

func startMember(t *testing.T, url, nats string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CONNECT_MEMBER="+url, "CONNECT_NATS="+nats)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, in}
	t.Cleanup(p.kill)
	started := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		started <- line == "started\n"
	}()
	select {
	case ok := <-started:
		if !ok {
			t.Fatal("a process has not started")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("a process has not started in two minutes")
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// TestProcesses is cases 1, 4, 5 and 26: two processes share a flow, read a source and write a sink. One after the other is
// killed, or stopped until the other has taken over. Each record is written once, and those of a key in order.
func TestProcesses(t *testing.T) {
	t.Parallel()
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer server.Shutdown()
	if !server.ReadyForConnections(time.Minute) {
		t.Fatal("the server did not start")
	}
	s := &tableServer{lanes: map[string]*tableLane{}, rows: map[string][]int{}}
	sink := httptest.NewServer(s)
	defer sink.Close()
	n := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.n
	}
	const all = countedSplits * countedEach
	members := []*process{startMember(t, sink.URL, server.ClientURL()), startMember(t, sink.URL, server.ClientURL())}
	wait := func(until func() bool) {
		t.Helper()
		deadline := time.After(4 * time.Minute)
		for !until() {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Fatalf("%d of %d records are there; %v", n(), all, s.wrong)
			}
		}
	}
	for i := range *kills {
		wait(func() bool { return n() >= min(all*(i+1)/(*kills+1), all) })
		who := rand.IntN(2)
		before := n()
		if rand.IntN(2) == 0 {
			members[who].kill()
			members[who] = startMember(t, sink.URL, server.ClientURL())
			continue
		}
		if err := members[who].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		wait(func() bool { return n() > before+all/(3**kills) || n() == all })
		if err := members[who].cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	wait(func() bool { return n() >= all })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) > 0 {
		t.Error(s.wrong)
	}
	for split := range countedSplits {
		for k := range countedKeys {
			key := fmt.Sprintf("counter/%d/%s", split, strconv.Itoa(k))
			want := k
			if k == 0 {
				want = countedKeys
			}
			for _, v := range s.rows[key] {
				if v != want {
					t.Fatalf("of %s there is %d, want %d", key, v, want)
				}
				want += countedKeys
			}
			if want <= countedEach {
				t.Errorf("of %s there is nothing from %d on", key, want)
			}
		}
	}
}
