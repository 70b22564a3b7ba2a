package durabletest

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// TestKeepFor crashes a program at each moment while its snapshots purge by time, so that the
// purges are among the moments.
func TestKeepFor(t *testing.T) {
	slow := func(ctx context.Context, p ports) error {
		<-time.After(time.Second) // in the bubble of a run
		return drive(ctx, p)
	}
	for _, keep := range []time.Duration{time.Nanosecond, time.Second, durable.Forever} {
		Crash(t, Program[ports]{Build: func(f *dataflow.Flow) ports { return build(dataflow.At[server](f)) }, Drive: slow, Check: check}, Options{Durable: durable.Options{KeepFor: keep}})
	}
}
