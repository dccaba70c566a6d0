" Settings for specs of tfdeploy; in Neovim the language server too.
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=#\ %s comments=:#
setlocal expandtab shiftwidth=2 softtabstop=2
let b:undo_ftplugin = "setlocal commentstring< comments< expandtab< shiftwidth< softtabstop<"

if has("nvim") && !get(g:, "tfdeploy_no_server", 0)
  lua require("tfdeploy").attach()
endif
