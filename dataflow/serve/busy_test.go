package serve

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/millrace/millrace/dataflow/durable"
)

// TestBusy checks the answer to a request for which a durable flow has no room: the client may retry.
func TestBusy(t *testing.T) {
	table := newRequestTable("", Options{})
	err := fmt.Errorf("sending: %w", &durable.BacklogError{Partition: 1, Err: durable.ErrNoRoom})
	if why := table.refused(err, false); why.status != http.StatusServiceUnavailable {
		t.Errorf("a full partition is %d: %s", why.status, why.words)
	}
}
