package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/internal/overlap"
	"github.com/millrace/millrace/keyedstream"
)

// A kill needs a process of its own, so the test runs its binary again. The child prints its progress, and the test kills it at a
// random number. A random time would kill it on a slow machine before it has done anything.
const (
	urlVar = "MILLRACE_JETSTREAM_URL"
	dirVar = "MILLRACE_JETSTREAM_DIR"
)

var kills = flag.Int("jetstream.kills", 10, "how often the test that kills processes does so")

func TestMain(m *testing.M) {
	if url := os.Getenv(urlVar); url != "" {
		if err := copyStream(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	overlap.Tests()
	os.Exit(m.Run())
}

// Each subject to read has killEach numbers, from 0 on, and among them one message that cannot be decoded.
const (
	killSubjects = 3
	killEach     = 5_000
)

type copies struct {
	in   *connect.Port[string, string, dataflow.TotalOrder, dataflow.ExactlyOnce]
	dead *connect.DeadLetterPort
	out  *dataflow.OutputPort[dataflow.Entry[string, string]]
	bad  *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
}

func buildCopies(f *dataflow.Flow) (p copies) {
	at := dataflow.At[shop](f)
	in, records := connect.Input[string, string](at, "records")
	dead, letters := connect.DeadLetters(at, "letters")
	return copies{in, dead, keyedstream.Output(records, "out"), keyedstream.Output(letters, "bad")}
}

// copyStream is the child: it reads a stream into a durable flow, writes another stream, and ends when everything is written.
func copyStream(url string) error {
	ctx := context.Background()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		return err
	}
	js, err := natsjs.New(nc)
	if err != nil {
		return err
	}
	app, err := durable.Start(ctx, buildCopies, durable.Options{Log: disklog.Dir(os.Getenv(dirVar)), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	var seen atomic.Int64
	far := func() {
		if n := seen.Add(1); n%50 == 0 {
			fmt.Println("far", n)
		}
	}
	s := jetstream.Stream[struct{}, string]{JetStream: js, Name: "S", Decode: func(m jetstream.Message) (struct{}, string, error) {
		far()
		return text(m)
	}}
	for i := range killSubjects {
		s.Subjects = append(s.Subjects, fmt.Sprint("s.", i))
	}
	r, err := s.Reader()
	if err != nil {
		return err
	}
	pumps, err := connect.Attach(ctx, app, connect.BySplit(r), app.Ports.in, connect.Options{Floor: 20 * time.Millisecond, DeadLetters: app.Ports.dead})
	if err != nil {
		return err
	}
	type record = dataflow.Entry[string, string]
	drains := connect.Drain(ctx, app, app.Ports.out, jetstream.Sink[record]{JetStream: js, Stream: "O", Prefix: "lanes", Encode: func(_ uint64, x record) (*nats.Msg, error) {
		far()
		return &nats.Msg{Data: []byte(x.Key + " " + x.Value)}, nil
	}}, connect.DrainOptions{Flow: "copy", Output: "out", Most: 100})
	for {
		if lanes := drains.Status(); len(lanes) > 0 && lanes[0].Number == killSubjects*killEach {
			break
		}
		select {
		case <-drains.Done():
			return fmt.Errorf("the drain has ended: %w", drains.Err())
		case <-pumps.Done():
			return fmt.Errorf("the pumps have ended: %w", pumps.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := errors.Join(pumps.Stop(ctx), drains.Stop(ctx), app.Stop(ctx)); err != nil {
		return err
	}
	bad := 0
	for range app.Ports.bad.All(ctx) {
		bad++
	}
	fmt.Println("letters", bad)
	return nil
}

// Cases 1, 17 and 26 of JetStream: a process that reads and writes is killed repeatedly, and the server is restarted in between.
// Each message is written once, in the order of its subject, and each that cannot be decoded is one dead letter.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	b.stream(t, natsjs.StreamConfig{Name: "O", Subjects: []string{"lanes.>"}, AllowAtomicPublish: true})
	for from := 0; from < killEach; from += 500 {
		for i := range killSubjects {
			b.publish(t, fmt.Sprint("s.", i), count(from, from+500)...)
			if from == killEach/2 {
				b.publish(t, fmt.Sprint("s.", i), "\xffbad")
			}
		}
	}
	dir := t.TempDir()
	letters, killed := "", 0
	for left := *kills; ; left-- {
		at := int64(-1)
		if left > 0 {
			at = 1 + rand.Int64N(2*killSubjects*killEach/int64(*kills))
		}
		lines, ended := b.child(t, dir, at, left%3 == 0)
		if ended {
			letters = lines[len(lines)-1]
			break
		}
		killed++
	}
	t.Logf("killed %d times", killed)
	if want := fmt.Sprint("letters ", killSubjects); letters != want {
		t.Errorf("the flow has %q, want %q", letters, want)
	}
	got := b.values(t, jetstream.Stream[struct{}, string]{Name: "O"})
	if len(got) != killSubjects*killEach {
		t.Errorf("%d messages are there, want %d", len(got), killSubjects*killEach)
	}
	for i := range killSubjects {
		var of []string
		for _, v := range got {
			if n, ok := strings.CutPrefix(v, fmt.Sprintf("S/s.%d ", i)); ok {
				of = append(of, n)
			}
		}
		if !slices.Equal(of, count(0, killEach)) {
			t.Errorf("the messages of subject %d are not there once each, in order: %s", i, short(of))
		}
	}
}

// child runs a child until it ends, or kills it once it has printed a number of at least at. With restart, the server is
// restarted before the kill.
func (b *broker) child(t *testing.T, dir string, at int64, restart bool) (lines []string, ended bool) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), urlVar+"="+b.server.ClientURL(), dirVar+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
		n, err := strconv.ParseInt(strings.TrimPrefix(s.Text(), "far "), 10, 64)
		if err != nil || at < 0 {
			continue
		}
		if restart && n >= at/2 {
			restart = false
			b.stop()
			b.start(t)
		}
		if n >= at {
			if err := c.Process.Kill(); err != nil { // SIGKILL
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err != nil && c.ProcessState.Exited() {
		t.Fatalf("the child failed: %v", err)
	} else if err == nil {
		return lines, true
	}
	b.connected(t)
	return nil, false
}
