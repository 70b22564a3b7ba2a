package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) {
	page.Picture(t, func(flow *dataflow.Flow) { newLimiter(flow, rule{Limit: 3, Window: time.Second}) })
}
