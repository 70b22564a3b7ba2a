package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A calling runs goroutines that each call a flow, one call after the other, until halt.
type calling struct {
	ctx     context.Context // context of the calls
	cancel  context.CancelFunc
	halted  chan struct{}
	running sync.WaitGroup

	number   atomic.Uint64 // calls begun
	failures atomic.Uint64 // failed sends, each of which was repeated
}

// begin starts n callers that call do in a loop, each with its own random numbers.
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

// halt stops the callers from starting new calls and waits until all calls are answered. It
// cancels calls that take longer than within.
func (c *calling) halt() {
	close(c.halted)
	time.AfterFunc(within, c.cancel)
	c.running.Wait()
}
