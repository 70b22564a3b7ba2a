package quota

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// TestTurnsAreFair checks that a message waits for at most one quantum of each busy tool server, and
// for the message being stored (threat 5).
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		var wg sync.WaitGroup
		const each = 200 << 10
		keep := func(s capability.ServerID, bytes int64) {
			done, err := turns.Wait(t.Context(), s, bytes)
			if err != nil {
				t.Error(err)
				return
			}
			<-time.After(time.Duration(bytes) * time.Second / (1 << 20)) // a log of 1 MiB a second
			done()
		}
		for _, s := range []capability.ServerID{{1}, {2}} {
			for range 100 {
				wg.Go(func() { keep(s, each) })
			}
		}
		synctest.Wait()
		for range 10 {
			start := time.Now()
			keep(capability.ServerID{3}, 300)
			if waited := time.Since(start); waited > time.Second {
				t.Errorf("a message of another tool server waited %v behind %d bytes", waited, 200*each)
			}
		}
		wg.Wait()
		if turns.out != 0 || turns.ring.Len() != 0 {
			t.Errorf("%d bytes are out, %d queues wait", turns.out, turns.ring.Len())
		}
	})
}

// TestTurnsShareBytes checks that two busy tool servers get equal shares, whatever the size of their
// messages.
func TestTurnsShareBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		kept := map[capability.ServerID]int64{}
		for s, bytes := range map[capability.ServerID]int64{{1}: 1 << 10, {2}: 200 << 10} {
			for range 400 {
				wg.Go(func() {
					for {
						done, err := turns.Wait(ctx, s, bytes)
						if err != nil {
							return
						}
						<-time.After(100 * time.Millisecond)
						done()
						mu.Lock()
						kept[s] += bytes
						mu.Unlock()
					}
				})
			}
		}
		<-time.After(time.Minute)
		cancel()
		wg.Wait()
		if small, large := kept[capability.ServerID{1}], kept[capability.ServerID{2}]; small < large*9/10 || large < small*9/10 {
			t.Errorf("kept %d bytes in small messages and %d in large ones", small, large)
		}
	})
}

// TestTurnsGivenUp checks that a waiter that gives up leaves nothing behind, and that nobody waits
// while there is room.
func TestTurnsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(2, uint64(i)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(20))*time.Second)
				defer cancel()
				done, err := turns.Wait(ctx, capability.ServerID{byte(i % 5)}, r.Int64N(1<<20))
				if err != nil {
					return
				}
				<-time.After(time.Duration(r.IntN(3)) * time.Second)
				done()
			})
		}
		wg.Wait()
		if turns.out != 0 || turns.ring.Len() != 0 {
			t.Errorf("%d bytes are out, %d queues wait", turns.out, turns.ring.Len())
		}
	})
}
