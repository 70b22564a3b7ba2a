package natslog_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/internal/natstest"
)

// TestSlowConnection writes and reads messages whose transfer takes longer than the timeout of a small
// request. It fails if the log requests them again and again.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	size := long.Of(3<<20, 7<<20)
	s := &servers{natstest.Start(t, 1, natstest.Config{JetStream: "sync_interval: always", Top: "max_payload: 8388608"})}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	fast, err := url.Parse(s.URLs("")[0])
	if err != nil {
		t.Fatal(err)
	}
	// Another log writes, over a fast connection, so that the slow one has not yet learnt how long answers take.
	slow := slowly(t, fast.Host, int64(long.Of(3<<20, 5<<19)))
	openAt := func(host string) *natslog.Log {
		return open(t, natslog.Settings{Options: natslog.Options{URLs: []string{"nats://" + host}, Replicas: 1, AssumeDurable: true}})
	}
	before := openAt(fast.Host)
	record, step := bytes.Repeat([]byte("r"), size), bytes.Repeat([]byte("s"), size)
	at, err := before.Append(ctx, 0, record)
	if err != nil {
		t.Fatal(err)
	}
	fence, err := before.Commit(ctx, 0, 0, step)
	if err != nil {
		t.Fatal(err)
	}
	l := openAt(slow)
	r, err := l.Read(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if ms, err := r.Next(ctx, 1); err != nil || ms[0].Position != at || !bytes.Equal(ms[0].Records[0], record) {
		t.Fatalf("read %d messages, %v", len(ms), err)
	}
	if h, err := l.Restore(ctx, 0); err != nil || h.Fence != fence || !bytes.Equal(h.Steps[0].Data, step) {
		t.Fatalf("restored %v, %v", h, err)
	}
	next, err := l.Commit(ctx, 0, fence, step)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := l.Steps(ctx, 0, fence)
	if err != nil {
		t.Fatal(err)
	}
	defer steps.Close()
	if got, err := steps.Next(ctx); err != nil || got.Fence != next || !bytes.Equal(got.Data, step) {
		t.Fatalf("step %d: %v", got.Fence, err)
	}
	// The reader waits for these, so only its consumer can bring them.
	for _, record := range [][]byte{record, []byte("a small one")} {
		if _, err := before.Append(ctx, 0, record); err != nil {
			t.Fatal(err)
		}
		if ms, err := r.Next(ctx, 1); err != nil || !bytes.Equal(ms[0].Records[0], record) {
			t.Fatalf("read %d messages, %v", len(ms), err)
		}
	}
}

// slowly returns an address that forwards to another one with a limited number of bytes per second in
// each direction.
func slowly(t *testing.T, to string, rate int64) string {
	return forward(t, to, func(to, from net.Conn) {
		const tick = 20 * time.Millisecond
		every := time.NewTicker(tick)
		defer every.Stop()
		part := make([]byte, rate/int64(time.Second/tick))
		for range every.C {
			n, err := from.Read(part)
			if _, failed := to.Write(part[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

// forward returns an address whose connections carry forwards to another one, in each direction. When
// carry returns, both directions end.
func forward(t *testing.T, to string, carry func(to, from net.Conn)) string {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	go func() {
		for {
			client, err := in.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close() // the server is not up yet
				continue
			}
			for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
				go func() {
					defer client.Close()
					defer server.Close()
					carry(way[0], way[1])
				}()
			}
		}
	}()
	return in.Addr().String()
}
