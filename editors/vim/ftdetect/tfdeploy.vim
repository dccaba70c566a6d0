autocmd BufNewFile,BufRead *.tfdeploy setfiletype tfdeploy
