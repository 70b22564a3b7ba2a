package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

// patience bounds the time that a test waits for something that must happen.
const patience = time.Minute

// A broker is a server in this process. It can be stopped, and started again with what it has
// stored.
type broker struct {
	opts   server.Options
	server *server.Server
	conn   *nats.Conn
	js     natsjs.JetStream
}

func startBroker(t testing.TB) *broker {
	t.Helper()
	b := &broker{opts: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	b.start(t)
	t.Cleanup(func() { b.stop() })
	var err error
	if b.conn, err = nats.Connect(b.server.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.conn.Close)
	if b.js, err = natsjs.New(b.conn); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *broker) start(t testing.TB) {
	t.Helper()
	opts := b.opts
	s, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server did not start")
	}
	b.server = s
	b.opts.Port = opts.Port // the chosen port
}

func (b *broker) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// connected waits until the client has reconnected.
func (b *broker) connected(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if err := b.conn.FlushWithContext(ctx); err == nil {
			if _, err = b.js.AccountInfo(ctx); err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatal("the client does not get a connection again")
		}
	}
}

// stream creates a stream, and retries while a deleted one is still in the way.
func (b *broker) stream(t testing.TB, cfg natsjs.StreamConfig) natsjs.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		s, err := b.js.CreateStream(ctx, cfg)
		if e, ok := errors.AsType[*natsjs.APIError](err); ok && e.ErrorCode == codeStoreInTheWay && ctx.Err() == nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

const codeStoreInTheWay natsjs.ErrorCode = 10049

// publish publishes messages to a subject.
func (b *broker) publish(t testing.TB, subject string, data ...string) {
	t.Helper()
	for _, d := range data {
		if _, err := b.js.PublishAsync(subject, []byte(d), natsjs.WithStallWait(patience)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("messages are not acknowledged")
	}
}

// count returns numbers as text.
func count(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

var errNoText = errors.New("no text")

func text(m jetstream.Message) (struct{}, string, error) {
	if strings.HasPrefix(string(m.Data), "\xff") {
		return struct{}{}, "", errNoText
	}
	return struct{}{}, string(m.Data), nil
}

func (b *broker) reader(t testing.TB, s jetstream.Stream[struct{}, string]) connect.Reader[struct{}, string] {
	t.Helper()
	s.JetStream = b.js
	if s.Decode == nil {
		s.Decode = text
	}
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func splits(t testing.TB, r connect.Reader[struct{}, string]) []connect.Split {
	t.Helper()
	all, err := r.Splits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func open(t testing.TB, r connect.Reader[struct{}, string], s connect.Split, after dataflow.Position) connect.Cursor[struct{}, string] {
	t.Helper()
	c, err := r.Open(t.Context(), s, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// until reads until done returns true for everything read so far, or there is an error.
func until(t testing.TB, c connect.Cursor[struct{}, string], done func(all *connect.Batch[struct{}, string]) bool) (all connect.Batch[struct{}, string], err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var b connect.Batch[struct{}, string]
	for !done(&all) {
		b.Reset()
		err := c.Next(ctx, &b)
		if err != nil && err != io.EOF {
			b.Reset() // as a pump does
		}
		all.Values, all.At, all.Bad = append(all.Values, b.Values...), append(all.At, b.At...), append(all.Bad, b.Bad...)
		if b.End.After(all.End) {
			all.End, all.EndTime = b.End, b.EndTime
		}
		all.Behind = b.Behind
		if ctx.Err() != nil {
			t.Fatalf("only %d values have come: %v", len(all.Values), err)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// take reads at least n values.
func take(t testing.TB, c connect.Cursor[struct{}, string], n int) connect.Batch[struct{}, string] {
	t.Helper()
	all, err := until(t, c, func(all *connect.Batch[struct{}, string]) bool { return len(all.Values) >= n })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func equal[T any](t testing.TB, what string, got, want []T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, short(got), short(want))
	}
}

func short[T any](all []T) string {
	s := fmt.Sprintf("%d of them: %v", len(all), all)
	return s[:min(len(s), 1000)]
}
