package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A calling is goroutines that call a flow, each one call after the other, until they are halted.
type calling struct {
	ctx     context.Context // of the calls
	cancel  context.CancelFunc
	halted  chan struct{}
	running sync.WaitGroup

	number   atomic.Uint64 // of calls that were begun
	failures atomic.Uint64 // of sends, which were repeated
}

// begin has n callers call do, each with random numbers of its own.
func (c *calling) begin(n int, do func(rng *rand.Rand)) {
	c.halted = make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for caller := range n {
		rng := rand.New(rand.NewPCG(*seed, uint64(caller)))
		c.running.Go(func() {
			for {
				select {
				case <-c.halted:
					return
				case <-c.ctx.Done():
					return
				default:
				}
				do(rng)
			}
		})
	}
}

// halt has no new calls made, and waits until all are answered. What is called then has a
// limited time as well.
func (c *calling) halt() {
	close(c.halted)
	time.AfterFunc(within, c.cancel)
	c.running.Wait()
}
