package main

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) {
	page.Picture(t, func(flow *dataflow.Flow) { newCounter(flow) })
}
