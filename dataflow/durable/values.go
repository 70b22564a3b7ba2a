package durable

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/engine/logdriven"
)

// lookAgain is how often a process polls the values of a partition that another process owns.
const lookAgain = 100 * time.Millisecond

// watchValues shows at this process's ports the values of a location whose partition another process owns. It
// polls, so it may skip values in between.
func (ps *peers) watchValues(ctx context.Context, location int) {
	p := ps.layout.first[location]
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	var shown []byte
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if ps.gateway.partitions[p].isOwned() {
			shown = nil
			continue
		}
		numbers, err := ps.learn(ctx, p)
		if errors.As(err, new(*PartitionError)) {
			continue
		}
		if err != nil {
			return
		}
		answer, err := ps.ask(ctx, p, []byte{askValues})
		if err != nil {
			return
		}
		if answer[0] != answerEntry || bytes.Equal(answer[1:], shown) {
			continue
		}
		shown = bytes.Clone(answer[1:])
		ps.feeding.Lock()
		if !ps.gateway.partitions[p].isOwned() { // else the ports already show something newer
			err = logdriven.Feed(ps.facade, location, p, numbers, shown)
		}
		ps.feeding.Unlock()
		if err != nil {
			ps.opts.Logger.Error("a value of another process cannot be read", "error", err)
		}
	}
}
