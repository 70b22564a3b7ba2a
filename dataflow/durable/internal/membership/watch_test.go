package membership

import (
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"
)

// A silentWatch is a watch whose channel the client does not close, and whose client has one more update to pass on
// than fit into the channel.
type silentWatch struct {
	updates chan jetstream.KeyValueEntry
	stopped bool
}

func (w *silentWatch) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w *silentWatch) Stop() error                             { w.stopped = true; return nil }

// TestEndOfWatch checks that the end of a watch does not wait for the client to close the channel, and that the
// goroutine of the client, which passes on one more update and the end of the list, ends.
func TestEndOfWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &silentWatch{updates: make(chan jetstream.KeyValueEntry, 2)}
		go func() {
			for range cap(w.updates) + 2 {
				w.updates <- nil
			}
		}()
		synctest.Wait()
		end(w)
		if !w.stopped {
			t.Error("the watch was not stopped")
		}
	}) // fails if a goroutine is left
}
