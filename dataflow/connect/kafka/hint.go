package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// hintLimit is how long Close of a cursor waits for its last offset to be written.
const hintLimit = 2 * time.Second

// A hint writes the offsets of a partition to a group, one after the other. It skips an offset if a newer one arrives meanwhile.
// A reader does not wait for it.
type hint struct {
	latest chan int64 // at most one
	ended  chan struct{}
	cancel context.CancelFunc
}

func startHint(admin *kadm.Client, group, topic string, partition int32) *hint {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hint{latest: make(chan int64, 1), ended: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(h.ended)
		for next := range h.latest {
			var at kadm.Offsets
			at.Add(kadm.Offset{Topic: topic, Partition: partition, At: next, LeaderEpoch: -1})
			admin.CommitOffsets(ctx, group, at) // an error has no consequences
		}
	}()
	return h
}

// tell must be called by only one goroutine.
func (h *hint) tell(next int64) {
	select {
	case <-h.latest:
	default:
	}
	h.latest <- next
}

// close waits for the last offset, for at most hintLimit.
func (h *hint) close() {
	close(h.latest)
	late := time.AfterFunc(hintLimit, h.cancel)
	<-h.ended
	late.Stop()
	h.cancel()
}
