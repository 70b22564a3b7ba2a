package durable

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestBatchElsewhere sends batches in two processes and a client while partitions change
// their owners. Each key is put once, and each numbered record comes once.
func TestBatchElsewhere(t *testing.T) {
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "batches", Partitions: 4}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type ports struct {
		keyed   *dataflow.KeyedInputPort[string, int]
		entries *dataflow.EntryInputPort[string, int]
		sums    *dataflow.EntryOutputPort[string, int]
		out     *dataflow.EntryOutputPort[string, int]
	}
	const keys, each = 50, 4
	build := func(f *dataflow.Flow) ports {
		at := dataflow.At[members](f)
		keyed, s := keyedstream.Input[string, int](at, "keyed")
		type sum struct{ N, Digits int }
		sums := keyedstream.FoldEarlyStop(s, func() sum { return sum{} }, func(x *sum, v int) bool {
			x.N, x.Digits = x.N+1, 10*x.Digits+v
			return x.N == each
		})
		entries, es := keyedsingleton.Input[string, int](at, "entries")
		return ports{keyed, entries, keyedsingleton.Output(keyedsingleton.Map(sums, func(x sum) int { return x.Digits }), "sums"), keyedsingleton.Output(es, "out")}
	}
	apps := []*App[ports]{start(t, nil, build, opts), start(t, nil, build, opts)}
	asClient := opts
	asClient.Client = true
	client := start(t, nil, build, asClient)

	all := []*App[ports]{apps[0], apps[1], client}
	won := make([]atomic.Int64, keys)
	winner := make([]atomic.Int64, keys)
	var puts sync.WaitGroup
	for who, app := range all {
		puts.Go(func() {
			var ks []string
			var vs []int
			for i := range keys {
				ks, vs = append(ks, fmt.Sprint("k", i)), append(vs, who)
			}
			errs, err := app.Ports.entries.PutBatch(ctx, ks, vs)
			if err != nil {
				t.Errorf("PutBatch of %d: %v", who, err)
			}
			for i, e := range errs {
				if e == nil {
					won[i].Add(1)
					winner[i].Store(int64(who))
				} else if e != dataflow.ErrDuplicateKey {
					t.Errorf("%s of %d: %v", ks[i], who, e)
				}
			}
		})
	}
	puts.Wait()
	for i := range keys {
		if n := won[i].Load(); n != 1 {
			t.Errorf("k%d was put %d times", i, n)
			continue
		}
		for _, app := range all {
			await(t, app.Ports.out, fmt.Sprint("k", i), int(winner[i].Load()))
		}
	}

	// The client numbers its lines and sends them twice, while a process leaves.
	var ks []string
	var vs []int
	for v := range each {
		for i := range keys {
			ks, vs = append(ks, fmt.Sprint("k", i)), append(vs, v+1)
		}
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		stop(t, apps[0])
	}()
	for range 2 {
		if n, err := client.Ports.keyed.SendBatchNumbered(ctx, 0, ks, vs); n != len(ks) || err != nil {
			t.Errorf("SendBatchNumbered: %d, %v", n, err)
		}
	}
	<-left
	for i := range keys {
		await(t, apps[1].Ports.sums, fmt.Sprint("k", i), 1234)
	}
	stop(t, client)
	stop(t, apps[1])
}
