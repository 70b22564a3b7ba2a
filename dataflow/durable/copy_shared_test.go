package durable

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestCopyShared copies the history of a cluster to a folder while two processes run the flow and
// both send. The copy contains everything that was acknowledged before it began, once.
func TestCopyShared(t *testing.T) {
	servers := natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := quiet(Options{Log: servers, Name: "first", Partitions: 3, Flow: dataflow.Options{Buffer: 1 << 20}})
	var apps []*App[movedPorts]
	for range 2 {
		apps = append(apps, start(t, nil, moving, o))
	}
	sending, halt := context.WithCancel(ctx)
	var mu sync.Mutex
	told := make(map[string]bool)
	var senders sync.WaitGroup
	enough := make(chan struct{})
	for s := range 4 {
		senders.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprint(s, " ", n)
				if err := apps[s%2].Ports.in.Put(sending, key, n); err != nil {
					if sending.Err() == nil {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				if told[key] = true; len(told) == 100 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal("nothing is taken")
	}
	mu.Lock()
	before := make(map[string]bool)
	for key := range told {
		before[key] = true
	}
	mu.Unlock()
	restored := o
	restored.Log = disklog.Dir(t.TempDir())
	_, err := Copy(ctx, o, restored.Log)
	halt()
	senders.Wait()
	for _, app := range apps {
		stop(t, app)
	}
	if err != nil {
		t.Fatal(err)
	}
	app := start(t, nil, moving, restored)
	seen := make(map[string]bool)
	if err := came(ctx, app, seen, before); err != nil {
		t.Error(err)
	}
	if err := app.Ports.in.Put(ctx, "later", 1); err != nil {
		t.Error(err)
	}
	if err := came(ctx, app, seen, map[string]bool{"later": true}); err != nil {
		t.Error(err)
	}
	stop(t, app)
	if _, err := Check(ctx, o); err != nil {
		t.Error(err)
	}
}
