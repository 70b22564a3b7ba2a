package natslog_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/natstest"
)

// TestLostRequest loses requests with their connection. None is ever answered, so the log must ask again, long before the
// context of its caller ends.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	s := &servers{natstest.Start(t, 1, natstest.Config{JetStream: "sync_interval: always"})}
	var losing atomic.Pointer[string] // the requests to lose
	at := forward(t, strings.TrimPrefix(s.URLs("")[0], "nats://"), func(to, from net.Conn) {
		part := make([]byte, 64<<10)
		for {
			n, err := from.Read(part)
			if what := losing.Load(); what != nil && bytes.Contains(part[:n], []byte(*what)) && losing.CompareAndSwap(what, nil) {
				return
			}
			if _, failed := to.Write(part[:n]); err != nil || failed != nil {
				return
			}
		}
	})
	l := open(t, natslog.Settings{Options: natslog.Options{URLs: []string{"nats://" + at}, Replicas: 1, AssumeDurable: true}})
	ctx := soon(t)
	fence, err := l.Commit(ctx, 0, 0, []byte("step 0"))
	if err != nil {
		t.Fatal(err)
	}
	restore := func(ctx context.Context) error {
		h, err := l.Restore(ctx, 0)
		if err == nil && h.Fence != fence {
			err = fmt.Errorf("the last step is %d, want %d", h.Fence, fence)
		}
		return err
	}
	send := func(ctx context.Context) error {
		_, err := l.Append(ctx, 0, []byte("a record"))
		return err
	}
	read := func(ctx context.Context) error {
		r, err := l.Read(ctx, 0, 0)
		if err != nil {
			return err
		}
		defer r.Close()
		ms, err := r.Next(ctx, 1)
		if err == nil && string(ms[0].Records[0]) != "a record" {
			err = fmt.Errorf("read %q", ms[0].Records)
		}
		return err
	}
	for _, lost := range []struct {
		request string
		do      func(context.Context) error
	}{
		{"STREAM.INFO", restore},
		{"STREAM.MSG.GET", restore},
		{"DIRECT.GET", restore},
		{".in.0", send},
		{"CONSUMER.CREATE", read},
	} {
		t.Run(lost.request, func(t *testing.T) {
			within, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			what := lost.request
			losing.Store(&what)
			if err := lost.do(within); err != nil {
				t.Error(err)
			}
			if losing.Load() != nil {
				t.Error("no such request was sent")
			}
		})
	}
}
