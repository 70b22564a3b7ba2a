package running

import (
	"context"
	"sync"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// A credit limits how much a function may have posted that is not delivered.
type credit struct {
	mu    sync.Mutex
	epoch string // names the run of the function
	sent  tools.Credit
	queue int64 // undelivered messages, as last seen by an attempt
	bytes int64
	seen  tools.Credit  // how much of sent had reached the queue by then
	space chan struct{} // closed when there is more room; nil if nobody waits
}

// maxQueue and maxQueueBytes are how many messages of one call, and how many bytes, may be
// undelivered before a function that posts one more has to wait.
const maxQueue, maxQueueBytes = 1000, 4 << 20

// take records what an attempt to send a message of the call has seen.
func (c *credit) take(j tools.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.bytes, c.seen = int64(j.Queue), j.Bytes, tools.Credit{}
	if j.Credit.Epoch == c.epoch {
		c.seen = j.Credit
	}
	if c.space != nil {
		close(c.space)
		c.space = nil
	}
}

// spend waits until a message may be posted, and returns the credit to post it with. It returns the
// cause of ctx if that ends first.
func (c *credit) spend(ctx context.Context, size int) (tools.Credit, error) {
	for {
		c.mu.Lock()
		waiting, bytes := c.queue+c.sent.Messages-c.seen.Messages, c.bytes+c.sent.Bytes-c.seen.Bytes
		if waiting < maxQueue && (bytes+int64(size) <= maxQueueBytes || waiting == 0) {
			c.sent = tools.Credit{Epoch: c.epoch, Messages: c.sent.Messages + 1, Bytes: c.sent.Bytes + int64(size)}
			spent := c.sent
			c.mu.Unlock()
			return spent, nil
		}
		if c.space == nil {
			c.space = make(chan struct{})
		}
		space := c.space
		c.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return tools.Credit{}, context.Cause(ctx)
		}
	}
}
