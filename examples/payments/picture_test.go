package main

import (
	"context"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) {
	page.Picture(t, func(flow *dataflow.Flow) {
		build(flow, func(context.Context, string, int64) Outcome { return Outcome{} })
	})
}
