package durable

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/engine/logdriven"
)

// lookAgain is how often a process looks for values that change in another one.
const lookAgain = 100 * time.Millisecond

// watchValues shows the ports of this process the values of a location whose partition
// another process owns: what they are every moment, and not each one in between.
func (ps *peers) watchValues(ctx context.Context, site int) {
	p := ps.layout.first[site]
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	var shown []byte
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if ps.door.partitions[p].isOwned() {
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
		if !ps.door.partitions[p].isOwned() { // or what this process shows is newer
			err = logdriven.Feed(ps.facade, site, p, numbers, shown)
		}
		ps.feeding.Unlock()
		if err != nil {
			ps.opts.Logger.Error("a value of another process cannot be read", "error", err)
		}
	}
}
