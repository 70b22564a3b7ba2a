package serve

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestTooLarge checks the answer to a request that the log of a durable flow cannot keep: the request is at fault, and
// the flow has not failed.
func TestTooLarge(t *testing.T) {
	table := newRequestTable("", Options{Log: slog.New(slog.DiscardHandler)})
	err := fmt.Errorf("sending: %w", fmt.Errorf("%w: 9 bytes", journal.ErrTooLarge))
	if why := table.refused(err, false); why.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a record that is too large is %d: %s", why.status, why.words)
	}
}
