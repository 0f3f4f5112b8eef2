package envfilter_test

import (
	"fmt"

	"github.com/hermes-exec/hermes-exec/envfilter"
)

func ExampleFilter() {
	ds := envfilter.Filter([]string{
		"HOME=/home/me",
		"https_proxy=http://me:hunter2@proxy:3128",
		"LANGSMITH_API_KEY=ls-1",
		"CUDA_HOME=/opt/cuda",
		"EDITOR=vi",
	}, envfilter.Options{Passthrough: []string{"CUDA_HOME", "LANGSMITH_API_KEY"}})
	for _, d := range ds {
		fmt.Printf("%-5v %s %s %s\n", d.Pass, d.Name, d.Rule, d.Value)
	}
	fmt.Println(len(envfilter.Environ(ds)))
	// Output:
	// true  CUDA_HOME passthrough /opt/cuda
	// false EDITOR unlisted
	// true  HOME listed /home/me
	// false LANGSMITH_API_KEY provider
	// true  https_proxy listed http://proxy:3128
	// 3
}
