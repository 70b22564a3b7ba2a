package webhook_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/webhook"
)

// TestFunctionExits checks that an element whose function calls runtime.Goexit does not count as written, and that the write
// ends although nobody is left to post the elements behind it.
func TestFunctionExits(t *testing.T) {
	r := startReceiver(t)
	for _, xs := range [][]int{{1, 2, 3}, {1, 2, 3, 4, 5}} {
		for _, parallel := range []int{1, 2} {
			w := open(t, webhook.Sink[int]{URL: r.URL, Parallel: parallel, Encode: func(number uint64, _ int) ([]byte, error) {
				if number == 3 {
					runtime.Goexit()
				}
				return []byte("1"), nil
			}})
			if _, err := w.Write(context.Background(), 1, xs); err == nil || !strings.Contains(err.Error(), "element 3: a function of the program called runtime.Goexit") {
				t.Errorf("%d elements, %d at a time: %v", len(xs), parallel, err)
			}
		}
	}
}
