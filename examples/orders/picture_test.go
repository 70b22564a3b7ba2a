package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) {
	page.Picture(t, func(flow *dataflow.Flow) { build([]string{"orders/0", "orders/1"}, Times{Window: time.Minute})(flow) })
}
