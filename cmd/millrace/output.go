package main

import (
	"os"

	"github.com/millrace/millrace/internal/plain"
)

// stdout and stderr are the outputs for text that others may have influenced: control
// sequences for a terminal and invisible characters are spelled out. JSON goes through
// [plain.JSON] first.
var (
	stdout = plain.NewWriter(os.Stdout)
	stderr = plain.NewWriter(os.Stderr)
)
