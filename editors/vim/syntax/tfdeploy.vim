" Vim syntax file of specs of tfdeploy.
" Written by `python -m tools.make_editors`; change the tables that it reads, not this file.

if exists("b:current_syntax")
  finish
endif

syntax case match
syntax iskeyword @,48-57,_

syntax keyword tfdeployLiteral true false none
syntax keyword tfdeployWord split
syntax keyword tfdeployWord shard
syntax keyword tfdeployWord t4
syntax keyword tfdeployWord p100
syntax keyword tfdeployWord v100
syntax keyword tfdeployWord a10
syntax keyword tfdeployWord a100
syntax keyword tfdeployWord h100
syntax keyword tfdeployWord cpu
syntax keyword tfdeployWord sync
syntax keyword tfdeployWord async
syntax keyword tfdeployWord local
syntax keyword tfdeployWord mean
syntax keyword tfdeployWord sum
syntax keyword tfdeployWord gpipe
syntax keyword tfdeployWord one_f_one_b
syntax keyword tfdeployWord first
syntax keyword tfdeployWord synchronized
syntax keyword tfdeployWord float32
syntax keyword tfdeployWord mixed_bfloat16
syntax keyword tfdeployWord mixed_float16
syntax keyword tfdeployWord in_graph
syntax keyword tfdeployWord between_graph
syntax keyword tfdeployWord scalars
syntax keyword tfdeployWord gradients
syntax keyword tfdeployWord all
syntax keyword tfdeployWord variables
syntax keyword tfdeployWord slots
syntax keyword tfdeployWord inputs
syntax keyword tfdeployWord updates
syntax keyword tfdeployWord summaries
syntax keyword tfdeployWord evaluation
syntax keyword tfdeployWord float64
syntax keyword tfdeployWord int8
syntax keyword tfdeployWord int16
syntax keyword tfdeployWord int32
syntax keyword tfdeployWord int64
syntax keyword tfdeployWord uint8
syntax keyword tfdeployWord uint16
syntax keyword tfdeployWord uint32
syntax keyword tfdeployWord uint64
syntax keyword tfdeployWord bool
syntax keyword tfdeployWord string
syntax match tfdeployName /\<[A-Za-z_]\w*\>/
syntax match tfdeployFunction /\<[A-Za-z_]\w*\ze(/
syntax match tfdeployOperator /->\|<=\|>=\|==\|\.\.\|[-+*\/=<>]/
syntax match tfdeployNumber /\<\d[0-9_]*\(\.\d[0-9_]*\)\?\([eE][-+]\?\d\+\)\?\(\s*\(%\|\(KiB\|MiB\|GiB\|TiB\|min\|kB\|KB\|MB\|GB\|TB\|us\|ms\|B\|s\|h\|d\)\>\)\)\?/
syntax match tfdeployBlock /\<\(let\|model\|output\|metrics\|layer\|data\|devices\|job\|clones\|place\|update\|optimizer\|train\|weights\|expect\)\>\ze\s*\("[^"]*"\)\?\s*=\?\s*{/
syntax match tfdeployAttribute /^\s*\zs\(tfdeploy\|include\|loss\|regularize\|output\|train\|validation\|test\|per_clone\|gpu\|cpu\|gpu_memory\|cpu_memory\|link\|kind\|soft_placement\|allow_growth\|visible\|log_placement\|intra_op_threads\|inter_op_threads\|tasks\|hosts\|count\|batch\|global_batch\|mode\|optimizer\|freeze\|reduce\|aggregate\|pack\|compress\|clip\|accumulate\|schedule\|recompute\|ema\|batch_norm\|precision\|replication\|backup\|staleness\|average_every\|average_slots\|steps\|epochs\|directory\|checkpoint_every\|evaluate_every\|keep\|log_every\|summaries\|track\|prometheus\|seed\|deterministic\|weights\|best\|patience\|task_timeout\)\>\ze\s*==\@!/
syntax match tfdeployBuiltin /\<\(csv\|npz\|tfrecord\|parquet\|arrow\|images\|cifar10\|mnist\|synthetic\|python\|feature\|shuffle\|cache\|take\|skip\|window\|scale\|reshape\|cast\|one_hot\|pad\|bucket\|center_crop\|random_crop\|random_flip\|random_color\|cutout\|mixup\|rename\|multiple_of\|add_n\|tree\|hierarchical\|ring\|collective\|bfloat16\|float16\|power_sgd\|global_norm\|norm\|value\|EMA\|memory\|scopes\|highest\|lowest\|mlflow\|input\|layer\|parameter\|repeat\|weight\|imbalance\|traffic\|step_time\|busy\|ops\|balanced\|round_robin\|sharded\|replicated\|groups\|group\)\ze(/
syntax region tfdeployString start=/"/ skip=/\\./ end=/"/ oneline
syntax match tfdeployComment /#.*$/ contains=tfdeployTodo
syntax keyword tfdeployTodo TODO FIXME contained

highlight default link tfdeployBlock Structure
highlight default link tfdeployAttribute Identifier
highlight default link tfdeployBuiltin Special
highlight default link tfdeployFunction Function
highlight default link tfdeployLiteral Boolean
highlight default link tfdeployWord Constant
highlight default link tfdeployNumber Number
highlight default link tfdeployOperator Operator
highlight default link tfdeployString String
highlight default link tfdeployComment Comment
highlight default link tfdeployTodo Todo

let b:current_syntax = "tfdeploy"
