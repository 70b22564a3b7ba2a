package keyedstream_test

import "github.com/millrace/millrace/bounds"

type bounded = bounds.Bounded
