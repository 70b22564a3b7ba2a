package durable

import (
	"github.com/millrace/millrace/internal/journal"
	"github.com/millrace/millrace/internal/seal"
)

// onLog is an option of a flow that keeps its history in log.
func onLog(log journal.Log) testLog { return seal.FieldOf(log) }
